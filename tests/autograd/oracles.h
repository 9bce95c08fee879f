#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shoal/runtime/tensor/tensor.h"

// Reference values from another framework: tests/data/oracles.json.
namespace shoal::autograd {

using Json = nlohmann::json;

inline const Json& oracles() {
  static const Json instance = [] {
    std::ifstream file(SHOAL_TEST_DATA "/oracles.json");
    return Json::parse(file);
  }();
  return instance;
}

// {"shape": […], "data": […]}
inline Shape shape_of(const Json& json) {
  Shape shape;
  for (const auto& size : json) shape.push_back(size.get<std::int64_t>());
  return shape;
}

inline Tensor tensor_of(const Json& json, DType dtype) {
  return Tensor::from(json.at("data").get<std::vector<double>>(), shape_of(json.at("shape")))
      .to(dtype);
}

inline Tensor classes_of(const Json& json) {
  return Tensor::from(json.at("data").get<std::vector<std::int64_t>>(), shape_of(json.at("shape")));
}

// Within `tolerance` of the value; of a hundredth, or a tenth of the largest of them, where the
// value is smaller: it is a sum of terms that are not.
inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const Tensor left = actual.to(DType::f64).contiguous();
  const Tensor right = expected.to(DType::f64).contiguous();
  double least = 1e-2;
  for (const double wanted : right.span<double>()) least = std::max(least, std::abs(wanted) / 10);
  for (std::size_t i = 0; i < left.span<double>().size(); ++i) {
    const double value = left.span<double>()[i], wanted = right.span<double>()[i];
    EXPECT_LE(std::abs(value - wanted), tolerance * std::max(std::abs(wanted), least))
        << what << ", element " << i << ": " << value << " instead of " << wanted;
  }
}

}  // namespace shoal::autograd
