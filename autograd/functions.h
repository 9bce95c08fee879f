#pragma once

#include "shoal/autograd/variable.h"

// Functions of variables. f32 and f64; operands of one call are alike in dtype. Shapes and dtypes
// that do not fit throw Error(invalid_argument) that names the function and both.
namespace shoal::autograd {

// Element by element, with NumPy's broadcasting; gradients are summed back to each operand's shape.
[[nodiscard]] Variable add(const Variable& a, const Variable& b);
[[nodiscard]] Variable sub(const Variable& a, const Variable& b);
[[nodiscard]] Variable mul(const Variable& a, const Variable& b);

// y(m,n) = a(m,k) b(k,n)
[[nodiscard]] Variable matmul(const Variable& a, const Variable& b);
// y(n,out) = x(n,in) w(out,in)^T + b(out); b may be undefined.
[[nodiscard]] Variable linear(const Variable& x, const Variable& w, const Variable& b);

// max(0, x); the gradient at 0 is 0.
[[nodiscard]] Variable relu(const Variable& x);

// Of all elements, as a scalar.
[[nodiscard]] Variable sum(const Variable& x);
[[nodiscard]] Variable mean(const Variable& x);

// As Tensor::reshape.
[[nodiscard]] Variable reshape(const Variable& x, const Shape& shape);

// x - log(sum(exp(x))) along the last axis.
[[nodiscard]] Variable log_softmax(const Variable& x);

// The mean over rows of -log_softmax(logits(n,c))[i, targets(i)], as a scalar. `targets` are i64
// classes in [0, c); others throw Error(invalid_argument) that names row and value. NaN for n = 0.
[[nodiscard]] Variable cross_entropy(const Variable& logits, const Tensor& targets);

// The mean over all elements of (prediction - target)^2, as a scalar; shapes are alike.
[[nodiscard]] Variable mse_loss(const Variable& prediction, const Variable& target);

}  // namespace shoal::autograd
