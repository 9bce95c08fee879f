#include "shoal/autograd/functions.h"

#include <limits>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/ops.h"

namespace shoal::autograd {
namespace {

// Computes a gradient only for an operand that needs one.
template <class F>
Tensor grad_for(const Variable& x, F gradient) {
  return x.requires_grad() ? gradient() : Tensor{};
}

// 1/n, as the factor of a mean; the mean of nothing is NaN.
double one_of(std::int64_t n) {
  return n > 0 ? 1 / static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
}

// One number for every element of `shape`, without a copy.
Tensor spread(const Tensor& scalar, const Shape& shape) { return scalar.expand(shape); }

double number(const Tensor& scalar) { return scalar.to(DType::f64).item<double>(); }

void check_classes(const Tensor& logits, const Tensor& targets) {
  constexpr const char* kCall = "cross_entropy";
  check(logits.rank() == 2 && targets.dtype() == DType::i64 &&
            targets.shape() == Shape{logits.size(0)},
        ErrorKind::invalid_argument, kCall, "needs logits(n,c) and i64 targets(n), given ",
        logits.shape(), " and ", to_string(targets.dtype()), " ", targets.shape());
  const auto classes = targets.span<std::int64_t>();
  for (std::size_t row = 0; row < classes.size(); ++row)
    check(classes[row] >= 0 && classes[row] < logits.size(1), ErrorKind::invalid_argument, kCall,
          "target ", classes[row], " of row ", row, " is outside [0, ", logits.size(1), ")");
}

}  // namespace

// y = a + b, broadcast
Variable add(const Variable& a, const Variable& b) {
  return record("add", ops::add(a.value(), b.value()), {a, b}, [a, b](const Tensor& dy) {
    return Grads{grad_for(a, [&] { return ops::sum_to(dy, a.shape()); }),
                 grad_for(b, [&] { return ops::sum_to(dy, b.shape()); })};
  });
}

// y = a - b, broadcast
Variable sub(const Variable& a, const Variable& b) {
  return record("sub", ops::sub(a.value(), b.value()), {a, b}, [a, b](const Tensor& dy) {
    return Grads{grad_for(a, [&] { return ops::sum_to(dy, a.shape()); }),
                 grad_for(b, [&] { return ops::neg(ops::sum_to(dy, b.shape())); })};
  });
}

// y = a b element by element, broadcast
Variable mul(const Variable& a, const Variable& b) {
  return record("mul", ops::mul(a.value(), b.value()), {a, b}, [a, b](const Tensor& dy) {
    return Grads{grad_for(a, [&] { return ops::sum_to(ops::mul(dy, b.value()), a.shape()); }),
                 grad_for(b, [&] { return ops::sum_to(ops::mul(dy, a.value()), b.shape()); })};
  });
}

// y(m,n) = a(m,k) b(k,n)
Variable matmul(const Variable& a, const Variable& b) {
  return record("matmul", ops::matmul(a.value(), b.value()), {a, b}, [a, b](const Tensor& dy) {
    return Grads{grad_for(a, [&] { return ops::matmul(dy, b.value().transpose()); }),   // da(m,k)
                 grad_for(b, [&] { return ops::matmul(a.value().transpose(), dy); })};  // db(k,n)
  });
}

// y(n,out) = x(n,in) w(out,in)^T + b(out)
Variable linear(const Variable& x, const Variable& w, const Variable& b) {
  const Tensor bias = b.defined() ? b.value() : Tensor{};
  return record("linear", ops::linear(x.value(), w.value(), bias), {x, w, b},
                [x, w, b](const Tensor& dy) {
                  return Grads{grad_for(x, [&] { return ops::matmul(dy, w.value()); }),  // dx(n,in)
                               grad_for(w, [&] { return ops::matmul(dy.transpose(), x.value()); }),
                               grad_for(b, [&] { return ops::sum(dy, 0); })};  // db(out)
                });
}

// y = max(0, x)
Variable relu(const Variable& x) {
  const Tensor y = ops::relu(x.value());
  return record("relu", y, {x}, [y](const Tensor& dy) { return Grads{ops::relu_backward(dy, y)}; });
}

// y() = sum of x(…)
Variable sum(const Variable& x) {
  return record("sum", ops::sum(x.value()), {x},
                [shape = x.shape()](const Tensor& dy) { return Grads{spread(dy, shape)}; });
}

// y() = sum of x(…) / n
Variable mean(const Variable& x) {
  return record("mean", ops::mean(x.value()), {x}, [shape = x.shape()](const Tensor& dy) {
    return Grads{spread(ops::scale(dy, one_of(numel(shape))), shape)};
  });
}

// y(shape) has the elements of x(…) in their order
Variable reshape(const Variable& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape), {x},
                [from = x.shape()](const Tensor& dy) { return Grads{dy.reshape(from)}; });
}

// y(…,c) = x - log(sum(exp(x))) over c
Variable log_softmax(const Variable& x) {
  const Tensor y = ops::log_softmax(x.value());
  return record("log_softmax", y, {x},
                [y](const Tensor& dy) { return Grads{ops::log_softmax_backward(dy, y)}; });
}

// y() = -mean over i of logp(n,c)[i, targets(i)], where logp = log_softmax(logits(n,c))
Variable cross_entropy(const Variable& logits, const Tensor& targets) {
  check(targets.defined(), ErrorKind::invalid_argument, "cross_entropy", "targets are undefined");
  const Tensor classes = targets.contiguous();
  check_classes(logits.value(), classes);
  const Tensor logp = ops::log_softmax(logits.value());
  return record("cross_entropy", ops::neg(ops::mean(ops::take(logp, classes))), {logits},
                [logp, classes](const Tensor& dy) {
                  // dlogits(n,c) = (softmax - onehot) / n: both steps of the chain in one.
                  const Tensor difference = ops::exp(logp);
                  ops::add_at(difference, classes, -1);
                  return Grads{ops::scale(difference, number(dy) * one_of(logp.size(0)))};
                });
}

// y() = mean over all n elements of d(…)^2, where d = prediction - target
Variable mse_loss(const Variable& prediction, const Variable& target) {
  check(prediction.shape() == target.shape(), ErrorKind::invalid_argument, "mse_loss", "shapes ",
        prediction.shape(), " and ", target.shape(), " differ");
  const Tensor d = ops::sub(prediction.value(), target.value());
  return record("mse_loss", ops::mean(ops::mul(d, d)), {prediction, target},
                [prediction, target, d](const Tensor& dy) {
                  const double factor = 2 * number(dy) * one_of(d.numel());
                  return Grads{grad_for(prediction, [&] { return ops::scale(d, factor); }),
                               grad_for(target, [&] { return ops::scale(d, -factor); })};
                });
}

}  // namespace shoal::autograd
