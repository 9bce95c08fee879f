#pragma once

#include <cstdint>
#include <limits>

#include "shoal/autograd/record.h"
#include "shoal/runtime/tensor/ops.h"

// What the functions' rules have in common. Private to this folder.
namespace shoal::autograd {

// What a rule keeps of an operand: its shape, whether it needs a gradient, and its value where the
// gradient of another operand needs that.
class Operand {
 public:
  explicit Operand(const Variable& x) : needs_grad_(x.requires_grad()) {
    if (x.defined()) shape_ = x.shape();
  }
  Operand(const char* op, const Variable& x, const Variable& other) : Operand(x) {
    if (other.requires_grad()) value_ = Saved(op, x.value());
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Tensor& value() const { return value_.get(); }

  // Computes a gradient only if it is needed.
  template <class F>
  [[nodiscard]] Tensor grad(F gradient) const {
    return needs_grad_ ? gradient() : Tensor{};
  }

 private:
  Shape shape_{};
  bool needs_grad_;
  Saved value_{};
};

[[nodiscard]] inline Tensor value_or_none(const Variable& x) {
  return x.defined() ? x.value() : Tensor{};
}

// 1/n, as the factor of a mean; the mean of nothing is NaN.
[[nodiscard]] inline double one_of(std::int64_t n) {
  return n > 0 ? 1 / static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
}

// The number in a tensor that has one.
[[nodiscard]] inline double number(const Tensor& scalar) {
  return scalar.dtype() == DType::f32 ? scalar.item<float>() : scalar.item<double>();
}

}  // namespace shoal::autograd
