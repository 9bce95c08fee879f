#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

// Each function with its gradient beside it; dy is that of the result y.
namespace shoal::autograd {

// y = a + b, broadcast
Variable add(const Variable& a, const Variable& b) {
  return record("add", ops::add(a.value(), b.value()), {a, b},
                [a = Operand(a), b = Operand(b)](const Tensor& dy) {
                  return Grads{a.grad([&] { return ops::sum_to(dy, a.shape()); }),
                               b.grad([&] { return ops::sum_to(dy, b.shape()); })};
                });
}

// y = a - b, broadcast
Variable sub(const Variable& a, const Variable& b) {
  return record("sub", ops::sub(a.value(), b.value()), {a, b},
                [a = Operand(a), b = Operand(b)](const Tensor& dy) {
                  return Grads{a.grad([&] { return ops::sum_to(dy, a.shape()); }),
                               b.grad([&] { return ops::neg(ops::sum_to(dy, b.shape())); })};
                });
}

// y = a b element by element, broadcast
Variable mul(const Variable& a, const Variable& b) {
  constexpr const char* kOp = "mul";
  return record(kOp, ops::mul(a.value(), b.value()), {a, b},
                [a = Operand(kOp, a, b), b = Operand(kOp, b, a)](const Tensor& dy) {
                  return Grads{
                      a.grad([&] { return ops::sum_to(ops::mul(dy, b.value()), a.shape()); }),
                      b.grad([&] { return ops::sum_to(ops::mul(dy, a.value()), b.shape()); })};
                });
}

// y = a / b, broadcast: da = dy / b, db = -dy y / b
Variable div(const Variable& a, const Variable& b) {
  constexpr const char* kOp = "div";
  const Tensor y = ops::div(a.value(), b.value());
  return record(kOp, y, {a, b},
                [a = Operand(a), b = Operand(b), divisor = Saved(kOp, b.value()),
                 y = Saved(kOp, y)](const Tensor& dy) {
                  const Tensor part = ops::div(dy, divisor.get());
                  return Grads{a.grad([&] { return ops::sum_to(part, a.shape()); }), b.grad([&] {
                                 return ops::neg(ops::sum_to(ops::mul(part, y.get()), b.shape()));
                               })};
                });
}

// y = -x
Variable neg(const Variable& x) {
  return record("neg", ops::neg(x.value()), {x},
                [](const Tensor& dy) { return Grads{ops::neg(dy)}; });
}

// y = x^2: dx = 2 x dy
Variable square(const Variable& x) {
  return record("square", ops::square(x.value()), {x},
                [x = Saved("square", x.value())](const Tensor& dy) {
                  return Grads{ops::scale(ops::mul(dy, x.get()), 2)};
                });
}

// y = exp(x): dx = dy y
Variable exp(const Variable& x) {
  const Tensor y = ops::exp(x.value());
  return record("exp", y, {x},
                [y = Saved("exp", y)](const Tensor& dy) { return Grads{ops::mul(dy, y.get())}; });
}

// y = log(x): dx = dy / x
Variable log(const Variable& x) {
  return record("log", ops::log(x.value()), {x}, [x = Saved("log", x.value())](const Tensor& dy) {
    return Grads{ops::div(dy, x.get())};
  });
}

// y = sqrt(x): dx = dy / (2 y)
Variable sqrt(const Variable& x) {
  const Tensor y = ops::sqrt(x.value());
  return record("sqrt", y, {x}, [y = Saved("sqrt", y)](const Tensor& dy) {
    return Grads{ops::scale(ops::div(dy, y.get()), 0.5)};
  });
}

// y = |x|: dx = dy sign(x)
Variable abs(const Variable& x) {
  return record("abs", ops::abs(x.value()), {x}, [x = Saved("abs", x.value())](const Tensor& dy) {
    return Grads{ops::mul(dy, ops::sign(x.get()))};
  });
}

// y = max(0, x)
Variable relu(const Variable& x) {
  const Tensor y = ops::relu(x.value());
  return record("relu", y, {x}, [y = Saved("relu", y)](const Tensor& dy) {
    return Grads{ops::relu_backward(dy, y.get())};
  });
}

// y = 1 / (1 + exp(-x)): dx = dy y (1 - y)
Variable sigmoid(const Variable& x) {
  const Tensor y = ops::sigmoid(x.value());
  return record("sigmoid", y, {x}, [y = Saved("sigmoid", y)](const Tensor& dy) {
    return Grads{ops::sigmoid_backward(dy, y.get())};
  });
}

// y = tanh(x): dx = dy (1 - y^2)
Variable tanh(const Variable& x) {
  const Tensor y = ops::tanh(x.value());
  return record("tanh", y, {x}, [y = Saved("tanh", y)](const Tensor& dy) {
    return Grads{ops::tanh_backward(dy, y.get())};
  });
}

}  // namespace shoal::autograd
