#pragma once

#include <cstdint>
#include <limits>

#include "shoal/autograd/variable.h"
#include "shoal/runtime/tensor/ops.h"

// What the functions' rules have in common. Private to this folder.
namespace shoal::autograd {

// Computes a gradient only for an operand that needs one.
template <class F>
[[nodiscard]] Tensor grad_for(const Variable& x, F gradient) {
  return x.requires_grad() ? gradient() : Tensor{};
}

// 1/n, as the factor of a mean; the mean of nothing is NaN.
[[nodiscard]] inline double one_of(std::int64_t n) {
  return n > 0 ? 1 / static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
}

// The number in a tensor that has one.
[[nodiscard]] inline double number(const Tensor& scalar) {
  return scalar.to(DType::f64).item<double>();
}

}  // namespace shoal::autograd
