#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "shoal/runtime/tensor/ops.h"
#include "shoal/runtime/tensor/random.h"
#include "support/tensors.h"

namespace shoal {
namespace {

using test::element;

std::int64_t random(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(100, rc::gen::inRange(low, high + 1));
}

// A matrix of this size as one of many layouts: dense, transposed, cut out, strided, repeated.
Tensor random_matrix(std::int64_t rows, std::int64_t columns, DType dtype) {
  Generator generator(static_cast<std::uint64_t>(random(0, 1000)));
  const auto dense = [&](const Shape& shape) {
    return Tensor::uniform(shape, -1, 1, generator, dtype);
  };
  const auto step = random(1, 3), before = random(0, 2);
  const auto cut = [&](std::int64_t r, std::int64_t c) {
    return dense({before + r * step + 1, before + c * step + 1})
        .slice(0, before, before + r * step, step)
        .slice(1, before, before + c * step, step);
  };
  switch (random(0, 5)) {
    case 0:
      return dense({rows, columns});
    case 1:
      return dense({columns, rows}).transpose();
    case 2:
      return cut(rows, columns);
    case 3:
      return cut(columns, rows).transpose();
    case 4:
      return dense({1, columns}).expand({rows, columns});
    default:
      return dense({rows, 1}).expand({rows, columns});
  }
}

template <class T>
bool is_product(const Tensor& c, const Tensor& a, const Tensor& b) {
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
  if (c.shape() != Shape{a.size(0), b.size(1)} || !c.is_contiguous()) return false;
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    for (std::int64_t j = 0; j < c.size(1); ++j) {
      double wanted = 0;
      for (std::int64_t k = 0; k < a.size(1); ++k)
        wanted += static_cast<double>(element<T>(a, {i, k})) * element<T>(b, {k, j});
      if (std::abs(element<T>(c, {i, j}) - wanted) > tolerance * (1.0 + std::abs(wanted)) * 4)
        return false;
    }
  }
  return true;
}

RC_GTEST_PROP(Matmul, IsTheSumOfProductsInAnyLayout, ()) {
  const auto m = random(0, 9), k = random(0, 9), n = random(0, 9);
  const DType dtype = random(0, 1) ? DType::f32 : DType::f64;
  const Tensor a = random_matrix(m, k, dtype), b = random_matrix(k, n, dtype);
  const Tensor c = ops::matmul(a, b);
  const bool right = dtype == DType::f32 ? is_product<float>(c, a, b) : is_product<double>(c, a, b);
  RC_ASSERT(right);

  const Tensor bias = random_matrix(1, n, dtype).select(0, 0);
  const Tensor with_bias = ops::linear(a, b.transpose(), bias);
  const Tensor wanted = ops::add(c, bias), difference = ops::sub(with_bias, wanted);
  RC_ASSERT(ops::sum(ops::mul(difference, difference)).to(DType::f64).item<double>() < 1e-9);
  RC_ASSERT(ops::linear(a, b.transpose(), {}).shape() == c.shape());
}

TEST(Matmul, OfSizesBeyondOneBlockIsRightToo) {
  Generator generator(3);
  const Tensor a = Tensor::uniform({67, 301}, -1, 1, generator, DType::f64);
  const Tensor b = Tensor::uniform({129, 301}, -1, 1, generator, DType::f64);
  EXPECT_TRUE(is_product<double>(ops::matmul(a, b.transpose()), a, b.transpose()));
  EXPECT_TRUE(is_product<double>(ops::matmul(b, a.transpose()), b, a.transpose()));
}

TEST(Matmul, OverNothingIsZero) {
  const Tensor c = ops::matmul(Tensor::empty({3, 0}), Tensor::empty({0, 2}));
  EXPECT_TRUE(equal(c, Tensor::zeros({3, 2})));
  const Tensor y = ops::linear(Tensor::empty({3, 0}), Tensor::empty({2, 0}), Tensor::ones({2}));
  EXPECT_TRUE(equal(y, Tensor::ones({3, 2})));
}

}  // namespace
}  // namespace shoal
