#include "shoal/runtime/tensor/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shoal/runtime/tensor/operands.h"

namespace shoal::ops {
namespace {

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, const char* name) {
  check_alike(a, b, name);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  // A repeated operand is laid out in full: simple, and the spans stay contiguous.
  const Tensor left = a.expand(shape).contiguous(), right = b.expand(shape).contiguous();
  Tensor y = Tensor::empty(shape, a.dtype());
  y.device().binary(op, y.dtype(), y.data_ptr(), left.data_ptr(), right.data_ptr(), y.numel());
  return y;
}

Tensor unary(UnaryOp op, const Tensor& x, const char* name) {
  check_operand(x, name);
  const Tensor in = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  y.device().unary(op, y.dtype(), y.data_ptr(), in.data_ptr(), y.numel());
  return y;
}

// A matrix as a product wants it: rows `leading` apart, dense along the other axis, or the
// transposed of such.
struct Operand {
  Tensor held;
  bool transposed = false;
  std::int64_t leading = 0;
};

Operand operand_of(const Tensor& matrix) {
  const auto fits = [](std::int64_t dense, std::int64_t leading, std::int64_t row_length) {
    return dense == 1 && leading >= std::max<std::int64_t>(row_length, 1);
  };
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  const auto& strides = matrix.strides();
  if (fits(strides[1], strides[0], columns)) return {matrix, false, strides[0]};
  if (fits(strides[0], strides[1], rows)) return {matrix, true, strides[1]};
  return {matrix.clone(), false, std::max<std::int64_t>(columns, 1)};
}

// c = a b + beta c, where c's rows have no gaps.
void matmul_into(const Tensor& c, const Tensor& a, const Tensor& b, double beta) {
  const Operand left = operand_of(a), right = operand_of(b);
  c.device().matmul(c.dtype(), {.m = a.size(0),
                                .n = b.size(1),
                                .k = a.size(1),
                                .a = left.held.data_ptr(),
                                .b = right.held.data_ptr(),
                                .c = c.data_ptr(),
                                .lda = left.leading,
                                .ldb = right.leading,
                                .ldc = std::max<std::int64_t>(b.size(1), 1),
                                .transpose_a = left.transposed,
                                .transpose_b = right.transposed,
                                .beta = beta});
}

// One product for each matrix, of tensors with the same axes before it.
void matmul_each(const Tensor& c, const Tensor& a, const Tensor& b) {
  if (c.rank() == 2) return matmul_into(c, a, b, 0);
  for (std::int64_t i = 0; i < c.size(0); ++i)
    matmul_each(c.select(0, i), a.select(0, i), b.select(0, i));
}

Shape without_matrix(Shape shape) {
  for (int i = 0; i < 2; ++i) shape.erase(shape.rank() - 1);
  return shape;
}

// x as (outer, n, inner) around `axis`.
Tensor sum_axis(const Tensor& x, int axis, const Shape& result) {
  Tensor y = Tensor::empty(result, x.dtype());
  // The sizes around the axis of an empty result may be too large to multiply, or to count to.
  if (y.numel() == 0) return y;
  const Tensor in = x.contiguous();
  const auto [outer, inner] = around(x.shape(), axis);
  y.device().sum(y.dtype(), y.data_ptr(), in.data_ptr(), outer, x.shape()[axis], inner, false);
  return y;
}

// y(n,out) = b(out), in each row, if there is one.
bool start_with_bias(const Tensor& y, const Tensor& b, const Tensor& w, const char* name) {
  if (!b.defined()) return false;
  check_alike(y, b, name);
  check(b.shape() == Shape{w.size(0)}, ErrorKind::invalid_argument, name, "bias of shape ",
        b.shape(), " does not fit w of shape ", w.shape());
  y.copy_(b);
  return true;
}

void check_linear(const Tensor& x, const Tensor& w, const char* name) {
  check_alike(x, w, name);
  check(x.rank() == 2 && w.rank() == 2 && x.size(1) == w.size(1), ErrorKind::invalid_argument, name,
        "needs x(n,in) and w(out,in), given ", x.shape(), " and ", w.shape());
}

std::int64_t rows_of(const Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary(BinaryOp::add, a, b, "add"); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(BinaryOp::subtract, a, b, "sub"); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(BinaryOp::multiply, a, b, "mul"); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(BinaryOp::divide, a, b, "div"); }
Tensor relu_backward(const Tensor& dy, const Tensor& y) {
  return binary(BinaryOp::relu_backward, dy, y, "relu_backward");
}
Tensor sigmoid_backward(const Tensor& dy, const Tensor& y) {
  return binary(BinaryOp::sigmoid_backward, dy, y, "sigmoid_backward");
}
Tensor tanh_backward(const Tensor& dy, const Tensor& y) {
  return binary(BinaryOp::tanh_backward, dy, y, "tanh_backward");
}

Tensor neg(const Tensor& x) { return unary(UnaryOp::negate, x, "neg"); }
Tensor square(const Tensor& x) { return unary(UnaryOp::square, x, "square"); }
Tensor abs(const Tensor& x) { return unary(UnaryOp::abs, x, "abs"); }
Tensor sign(const Tensor& x) { return unary(UnaryOp::sign, x, "sign"); }
Tensor exp(const Tensor& x) { return unary(UnaryOp::exp, x, "exp"); }
Tensor log(const Tensor& x) { return unary(UnaryOp::log, x, "log"); }
Tensor sqrt(const Tensor& x) { return unary(UnaryOp::sqrt, x, "sqrt"); }
Tensor relu(const Tensor& x) { return unary(UnaryOp::relu, x, "relu"); }
Tensor sigmoid(const Tensor& x) { return unary(UnaryOp::sigmoid, x, "sigmoid"); }
Tensor tanh(const Tensor& x) { return unary(UnaryOp::tanh, x, "tanh"); }

Tensor scale(const Tensor& x, double alpha) {
  check_operand(x, "scale");
  const Tensor in = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  y.device().scale(y.dtype(), y.data_ptr(), alpha, in.data_ptr(), y.numel());
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  constexpr const char* kName = "matmul";
  check_alike(a, b, kName);
  check(a.rank() >= 2 && b.rank() >= 2 && a.size(-1) == b.size(-2), ErrorKind::invalid_argument,
        kName, "needs a(…,m,k) and b(…,k,n), given ", a.shape(), " and ", b.shape());
  Shape shape = broadcast_shapes(without_matrix(a.shape()), without_matrix(b.shape()), kName);
  Shape of_a = shape, of_b = shape;
  for (const int axis : {-2, -1}) {
    of_a.push_back(a.size(axis));
    of_b.push_back(b.size(axis));
  }
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  Tensor c = Tensor::empty(shape, a.dtype());
  matmul_each(c, a.expand(of_a), b.expand(of_b));
  return c;
}

void addmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta) {
  constexpr const char* kName = "addmm";
  check_alike(a, b, kName);
  check_alike(a, c, kName);
  check(a.rank() == 2 && b.rank() == 2 && a.size(1) == b.size(0) &&
            c.shape() == Shape{a.size(0), b.size(1)},
        ErrorKind::invalid_argument, kName, "needs c(m,n), a(m,k) and b(k,n), given ", c.shape(),
        ", ", a.shape(), " and ", b.shape());
  check(beta == 0 || beta == 1, ErrorKind::invalid_argument, kName, "beta is ", beta,
        "; it must be 0 or 1");
  check_target(c, kName);
  matmul_into(c, may_overlap(a, c) ? a.clone() : a, may_overlap(b, c) ? b.clone() : b, beta);
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  check_linear(x, w, "linear");
  Tensor y = Tensor::empty({x.size(0), w.size(0)}, x.dtype());
  matmul_into(y, x, w.transpose(), start_with_bias(y, b, w, "linear") ? 1 : 0);
  return y;
}

Tensor linear_relu(const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = linear(x, w, b);
  y.device().unary(UnaryOp::relu, y.dtype(), y.data_ptr(), y.data_ptr(), y.numel());
  return y;
}

Tensor sum(const Tensor& x) {
  check_operand(x, "sum");
  return sum_axis(x.reshape({x.numel()}), 0, {});
}

Tensor sum(const Tensor& x, int axis, bool keepdim) {
  check_operand(x, "sum");
  axis = normalize_axis(axis, x.rank(), "sum");
  Shape result = x.shape();
  if (keepdim) {
    result[axis] = 1;
  } else {
    result.erase(axis);
  }
  return sum_axis(x, axis, result);
}

void add_sum(const Tensor& y, const Tensor& x, int axis, bool add) {
  constexpr const char* kName = "add_sum";
  check_alike(y, x, kName);
  axis = normalize_axis(axis, x.rank(), kName);
  Shape result = x.shape();
  result.erase(axis);
  check(y.shape() == result, ErrorKind::invalid_argument, kName, x.shape(), " summed over axis ",
        axis, " does not fit ", y.shape());
  check_target(y, kName);
  if (y.numel() == 0) return;
  const Tensor in = may_overlap(y, x) ? x.clone() : x.contiguous();
  const auto [outer, inner] = around(x.shape(), axis);
  y.device().sum(y.dtype(), y.data_ptr(), in.data_ptr(), outer, x.shape()[axis], inner, add);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  check_operand(x, "sum_to");
  check(broadcasts_to(shape, x.shape()), ErrorKind::invalid_argument, "sum_to", x.shape(),
        " does not sum to ", shape);
  Tensor y = x;
  while (y.rank() > shape.rank()) y = sum(y, 0);
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] == 1 && y.shape()[axis] != 1) y = sum(y, axis, true);
  return y;
}

Tensor mean(const Tensor& x) {
  check_operand(x, "mean");
  const double n = static_cast<double>(x.numel());
  return scale(sum(x), n > 0 ? 1 / n : std::numeric_limits<double>::quiet_NaN());
}

Tensor log_softmax(const Tensor& x) {
  const std::int64_t n = last_axis(x, "log_softmax");
  const Tensor in = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  y.device().log_softmax(y.dtype(), y.data_ptr(), in.data_ptr(), rows_of(x), n);
  return y;
}

Tensor log_softmax_backward(const Tensor& dy, const Tensor& y) {
  check_alike(dy, y, "log_softmax_backward");
  check(dy.shape() == y.shape(), ErrorKind::invalid_argument, "log_softmax_backward", "shapes ",
        dy.shape(), " and ", y.shape(), " differ");
  const std::int64_t n = last_axis(y, "log_softmax_backward");
  const Tensor gradient = dy.contiguous(), logp = y.contiguous();
  Tensor dx = Tensor::empty(y.shape(), y.dtype());
  dx.device().log_softmax_backward(dx.dtype(), dx.data_ptr(), gradient.data_ptr(), logp.data_ptr(),
                                   rows_of(y), n);
  return dx;
}

void axpy(const Tensor& y, double alpha, const Tensor& x) {
  check_alike(y, x, "axpy");
  check_target(y, "axpy");
  check(broadcasts_to(x.shape(), y.shape()), ErrorKind::invalid_argument, "axpy", "x of shape ",
        x.shape(), " does not broadcast to y of shape ", y.shape());
  Tensor in = x.expand(y.shape()).contiguous();
  // A device reads and writes side by side, so x must be y exactly or lie apart.
  if (in.data_ptr() != y.data_ptr() && may_overlap(in, y)) in = in.clone();
  y.device().axpy(y.dtype(), y.data_ptr(), alpha, in.data_ptr(), y.numel());
}

}  // namespace shoal::ops
