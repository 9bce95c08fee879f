#pragma once

#include <span>

#include "shoal/runtime/tensor/tensor.h"

// Arithmetic on tensors: shapes, broadcasting and checks; the numbers are made by the tensors'
// Device. f32 and f64, both operands alike. Results are new, contiguous tensors. Nothing here
// knows of gradients. Errors are Error(invalid_argument) with the op and what it was given, and
// Error(unsupported) with the op for other dtypes.
namespace shoal::ops {

// Element by element, with NumPy's broadcasting.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b);

[[nodiscard]] Tensor neg(const Tensor& x);
[[nodiscard]] Tensor square(const Tensor& x);
[[nodiscard]] Tensor abs(const Tensor& x);
// -1, 0 or 1.
[[nodiscard]] Tensor sign(const Tensor& x);
[[nodiscard]] Tensor exp(const Tensor& x);
[[nodiscard]] Tensor log(const Tensor& x);
[[nodiscard]] Tensor sqrt(const Tensor& x);
[[nodiscard]] Tensor relu(const Tensor& x);
[[nodiscard]] Tensor sigmoid(const Tensor& x);
[[nodiscard]] Tensor tanh(const Tensor& x);
// The gradient of x, from that of the result y: dy where y > 0, else 0; dy y (1 - y);
// dy (1 - y^2).
[[nodiscard]] Tensor relu_backward(const Tensor& dy, const Tensor& y);
[[nodiscard]] Tensor sigmoid_backward(const Tensor& dy, const Tensor& y);
[[nodiscard]] Tensor tanh_backward(const Tensor& dy, const Tensor& y);
[[nodiscard]] Tensor scale(const Tensor& x, double alpha);

// c(…,m,n) = a(…,m,k) b(…,k,n), where what stands for … is broadcast. Transposed views are used as
// they are, without a copy.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b);
// y(n,out) = x(n,in) w(out,in)^T + b(out); b may be undefined.
[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b);

// max(linear(x, w, b), 0)
[[nodiscard]] Tensor linear_relu(const Tensor& x, const Tensor& w, const Tensor& b);
// c(m,n) = a(m,k) b(k,n) + beta c, in place; beta is 0 or 1.
void addmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta);

// Of all elements, as a scalar tensor; along one axis, which disappears or stays with size 1.
[[nodiscard]] Tensor sum(const Tensor& x);
[[nodiscard]] Tensor sum(const Tensor& x, int axis, bool keepdim = false);
// y = sum(x, axis), + y if `add`, in place.
void add_sum(const Tensor& y, const Tensor& x, int axis, bool add);
// Sums what broadcasting to x's shape had repeated: the inverse of expand, for gradients.
// x itself where nothing had been.
[[nodiscard]] Tensor sum_to(const Tensor& x, const Shape& shape);
// The mean of no elements is NaN.
[[nodiscard]] Tensor mean(const Tensor& x);

// The largest along one axis, and where it is, i64: the first one if several. NaN counts as the
// largest, so that it does not go unseen. There must be one: Error(invalid_argument).
struct Largest {
  Tensor values, index;
};
[[nodiscard]] Largest max(const Tensor& x, int axis, bool keepdim = false);
// dy put where the largest came from, zeros elsewhere. dy and index have the axis, with size 1.
[[nodiscard]] Tensor max_backward(const Tensor& dy, const Tensor& index, const Shape& shape,
                                  int axis);

// One after the other along an axis; alike in all but its size. Error(invalid_argument) for none.
[[nodiscard]] Tensor cat(std::span<const Tensor> parts, int axis);

// Along the last axis, shifted by its maximum so that nothing overflows.
[[nodiscard]] Tensor log_softmax(const Tensor& x);
[[nodiscard]] Tensor log_softmax_backward(const Tensor& dy, const Tensor& y);

// Of each row of x(n,c), with target t = targets(n)[row], i64: losses(n) = -log_softmax(x)[t] and
// dx(n,c) = softmax(x), less 1 at t, in one pass. 0 where t is negative; none is as large as c.
struct CrossEntropy {
  Tensor losses, dx;
};
[[nodiscard]] CrossEntropy cross_entropy(const Tensor& x, const Tensor& targets);

// The index of the largest element along the last axis, the first one if several; i64. NaN counts
// as the largest, so that it does not go unseen.
[[nodiscard]] Tensor argmax(const Tensor& x);

// y(n) = x(n,c)[i, index(i)]. `index` is i64; one outside [0, c) is refused.
[[nodiscard]] Tensor take(const Tensor& x, const Tensor& index);
// y(n,c)[i, index(i)] += alpha, in place.
void add_at(const Tensor& y, const Tensor& index, double alpha);

// y(…,d) = table(v,d)[index(…)], rows; `index` is i64, one outside [0, v) is refused.
[[nodiscard]] Tensor gather_rows(const Tensor& table, const Tensor& index);
// y(v,d)[index(…)] += alpha rows(…,d), in place, in the order of the index.
void add_rows(const Tensor& y, const Tensor& index, const Tensor& rows, double alpha = 1);
// y(b,d)[i] = alpha times the sum of table(v,d)[index(b,n)[i, j]] over j.
[[nodiscard]] Tensor sum_bags(const Tensor& table, const Tensor& index, double alpha = 1);

// y += alpha x, in place, with x broadcast to y.
void axpy(const Tensor& y, double alpha, const Tensor& x);

}  // namespace shoal::ops
