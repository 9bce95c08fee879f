#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

namespace shoal::autograd {
namespace {

// dy, of a result without `axis`, with the axis again.
Tensor with_axis(const Tensor& dy, const Shape& shape, int axis) {
  Shape reduced = shape;
  reduced[axis] = 1;
  return dy.reshape(reduced);
}

int axis_of(const Variable& x, int axis, const char* name) {
  return normalize_axis(axis, x.shape().rank(), name);
}

// A function along the last axis, along any.
template <class F>
Variable along(const Variable& x, int axis, const char* name, F function) {
  const int wanted = axis_of(x, axis, name), last = x.shape().rank() - 1;
  if (wanted == last) return function(x);
  return transpose(function(transpose(x, wanted, last)), wanted, last);
}

}  // namespace

// y() = sum of x(…)
Variable sum(const Variable& x) {
  return record("sum", ops::sum(x.value()), {x},
                [shape = x.shape()](const Tensor& dy) { return Grads{dy.expand(shape)}; });
}

// y(…) = sum of x(…,n,…) over n
Variable sum(const Variable& x, int axis, bool keepdim) {
  axis = axis_of(x, axis, "sum");
  return record("sum", ops::sum(x.value(), axis, keepdim), {x},
                [shape = x.shape(), axis](const Tensor& dy) {
                  return Grads{with_axis(dy, shape, axis).expand(shape)};
                });
}

// y() = sum of x(…) / n
Variable mean(const Variable& x) {
  return record("mean", ops::mean(x.value()), {x}, [shape = x.shape()](const Tensor& dy) {
    return Grads{ops::scale(dy, one_of(numel(shape))).expand(shape)};
  });
}

// y(…) = sum of x(…,n,…) over n, divided by n
Variable mean(const Variable& x, int axis, bool keepdim) {
  axis = axis_of(x, axis, "mean");
  const double factor = one_of(x.shape()[axis]);
  const Tensor y = ops::scale(ops::sum(x.value(), axis, keepdim), factor);
  return record("mean", y, {x}, [shape = x.shape(), axis, factor](const Tensor& dy) {
    return Grads{ops::scale(with_axis(dy, shape, axis), factor).expand(shape)};
  });
}

// y(…) = the largest of x(…,n,…) over n
Variable max(const Variable& x, int axis, bool keepdim) {
  axis = axis_of(x, axis, "max");
  const auto [y, index] = ops::max(x.value(), axis, true);
  Shape shape = y.shape();
  if (!keepdim) shape.erase(axis);
  return record("max", y.reshape(shape), {x},
                [from = x.shape(), axis, index = index](const Tensor& dy) {
                  const Tensor gradient = with_axis(dy, from, axis);
                  return Grads{ops::max_backward(gradient, index, from, axis)};
                });
}

// y(…,c) = exp(x) / sum(exp(x)) over c: dx = y (dy - sum(dy y))
Variable softmax(const Variable& x, int axis) {
  return along(x, axis, "softmax", [](const Variable& in) {
    const Tensor y = ops::exp(ops::log_softmax(in.value()));
    return record("softmax", y, {in}, [y = Saved("softmax", y)](const Tensor& dy) {
      const Tensor weighted = ops::mul(dy, y.get());
      return Grads{ops::sub(weighted, ops::mul(y.get(), ops::sum(weighted, -1, true)))};
    });
  });
}

// y(…,c) = x - log(sum(exp(x))) over c
Variable log_softmax(const Variable& x, int axis) {
  return along(x, axis, "log_softmax", [](const Variable& in) {
    const Tensor y = ops::log_softmax(in.value());
    return record("log_softmax", y, {in}, [y = Saved("log_softmax", y)](const Tensor& dy) {
      return Grads{ops::log_softmax_backward(dy, y.get())};
    });
  });
}

}  // namespace shoal::autograd
