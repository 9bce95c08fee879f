#pragma once

#include <span>

#include "shoal/autograd/variable.h"
#include "shoal/runtime/tensor/image_ops.h"
#include "shoal/runtime/tensor/random.h"

// Functions of variables. f32 and f64; operands of one call are alike in dtype. Shapes and dtypes
// that do not fit throw Error(invalid_argument) that names the function, or the op that it is made
// of (ops.h), and both. Losses are in losses.h.
namespace shoal::autograd {

// --- Element by element; two operands with NumPy's broadcasting, where gradients are summed back
// to each operand's shape.
[[nodiscard]] Variable add(const Variable& a, const Variable& b);
[[nodiscard]] Variable sub(const Variable& a, const Variable& b);
[[nodiscard]] Variable mul(const Variable& a, const Variable& b);
[[nodiscard]] Variable div(const Variable& a, const Variable& b);

[[nodiscard]] Variable neg(const Variable& x);
[[nodiscard]] Variable square(const Variable& x);
[[nodiscard]] Variable exp(const Variable& x);
[[nodiscard]] Variable log(const Variable& x);
[[nodiscard]] Variable sqrt(const Variable& x);
// The gradient at 0 is 0, of both.
[[nodiscard]] Variable abs(const Variable& x);
[[nodiscard]] Variable relu(const Variable& x);
[[nodiscard]] Variable sigmoid(const Variable& x);
[[nodiscard]] Variable tanh(const Variable& x);

// --- Products.
// y(…,m,n) = a(…,m,k) b(…,k,n); what stands for … is broadcast.
[[nodiscard]] Variable matmul(const Variable& a, const Variable& b);
// y(n,out) = x(n,in) w(out,in)^T + b(out); b may be undefined.
[[nodiscard]] Variable linear(const Variable& x, const Variable& w, const Variable& b);
// relu(linear(x, w, b)), in fewer passes.
[[nodiscard]] Variable linear_relu(const Variable& x, const Variable& w, const Variable& b);

// --- Of all elements, as a scalar; or along one axis, which disappears or stays with size 1.
[[nodiscard]] Variable sum(const Variable& x);
[[nodiscard]] Variable sum(const Variable& x, int axis, bool keepdim = false);
[[nodiscard]] Variable mean(const Variable& x);
[[nodiscard]] Variable mean(const Variable& x, int axis, bool keepdim = false);
// The gradient goes to the first of several that are largest, as in PyTorch.
[[nodiscard]] Variable max(const Variable& x, int axis, bool keepdim = false);

// exp(x) / sum(exp(x)) and x - log(sum(exp(x))) along an axis; large x do not overflow.
[[nodiscard]] Variable softmax(const Variable& x, int axis = -1);
[[nodiscard]] Variable log_softmax(const Variable& x, int axis = -1);

// --- Images x(n,c,h,w) (image_ops.h); b may be undefined.
[[nodiscard]] Variable conv2d(const Variable& x, const Variable& weight, const Variable& b,
                              const ops::Conv2dOptions& options = {});
// The gradient goes to the first of several that are largest. Stride 0: the kernel's size.
[[nodiscard]] Variable max_pool2d(const Variable& x, std::int64_t kernel, std::int64_t stride = 0);

// --- Rows of a table(v,d), by i64 index in [0, v). The gradients of a row that was taken more than
// once are added in the order of the index. With `sparse`, and a table that is a leaf, they become
// its sparse_grad(), and only rows that were taken cost anything.
// y(…,d) for index(…).
[[nodiscard]] Variable embedding(const Variable& table, const Tensor& index, bool sparse = false);
enum class BagMode { sum, mean };
// y(b,d) from index(b,n): the sum or mean of each bag of n rows; 0 for n = 0.
[[nodiscard]] Variable embedding_bag(const Variable& table, const Tensor& index,
                                     BagMode mode = BagMode::mean, bool sparse = false);

// --- Zeroes each element, or with dropout2d each plane of x(n,c,h,w), with probability p in
// [0, 1), and scales the rest by 1 / (1 - p), so that the mean stays.
[[nodiscard]] Variable dropout(const Variable& x, double p, Generator& generator);
[[nodiscard]] Variable dropout2d(const Variable& x, double p, Generator& generator);

// --- The same elements otherwise, as Tensor's calls of these names.
[[nodiscard]] Variable reshape(const Variable& x, const Shape& shape);
[[nodiscard]] Variable transpose(const Variable& x, int axis0, int axis1);
[[nodiscard]] Variable transpose(const Variable& x);
[[nodiscard]] Variable slice(const Variable& x, int axis, std::int64_t start, std::int64_t end,
                             std::int64_t step = 1);
// One after the other along an axis; alike in all but its size.
[[nodiscard]] Variable cat(std::span<const Variable> parts, int axis);

}  // namespace shoal::autograd
