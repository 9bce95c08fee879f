#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

namespace shoal::autograd {
namespace {

// a b, added to the gradient there is, or by itself.
Tensor product(const GradSlots::Slot& slot, const Tensor& a, const Tensor& b) {
  if (!slot.grad.defined()) return ops::matmul(a, b);
  ops::addmm(slot.grad, a, b, slot.add ? 1 : 0);
  return slot.grad;
}

// The sum of dy(n,out) over its rows, as product().
Tensor column_sum(const GradSlots::Slot& slot, const Tensor& dy) {
  if (!slot.grad.defined()) return ops::sum(dy, 0);
  ops::add_sum(slot.grad, dy, 0, slot.add);
  return slot.grad;
}

// dx(n,in) = dy w, dw(out,in) = dy^T x, db(out) = the sum of dy over n.
struct LinearGradients {
  Operand x, w, b;

  LinearGradients(const char* op, const Variable& vx, const Variable& vw, const Variable& vb)
      : x(op, vx, vw), w(op, vw, vx), b(vb) {}

  [[nodiscard]] Grads of(const Tensor& dy, const GradSlots& slots) const {
    return {x.grad([&] { return ops::matmul(dy, w.value()); }),
            w.grad([&] { return product(slots[1], dy.transpose(), x.value()); }),
            b.grad([&] { return column_sum(slots[2], dy); })};
  }
};

}  // namespace

// y(…,m,n) = a(…,m,k) b(…,k,n)
Variable matmul(const Variable& a, const Variable& b) {
  constexpr const char* kOp = "matmul";
  return record(kOp, ops::matmul(a.value(), b.value()), {a, b},
                [a = Operand(kOp, a, b), b = Operand(kOp, b, a)](const Tensor& dy) {
                  // da(…,m,k) and db(…,k,n), summed over what was broadcast
                  return Grads{
                      a.grad([&] {
                        return ops::sum_to(ops::matmul(dy, b.value().transpose(-2, -1)), a.shape());
                      }),
                      b.grad([&] {
                        return ops::sum_to(ops::matmul(a.value().transpose(-2, -1), dy), b.shape());
                      })};
                });
}

// y(n,out) = x(n,in) w(out,in)^T + b(out)
Variable linear(const Variable& x, const Variable& w, const Variable& b) {
  constexpr const char* kOp = "linear";
  return record(kOp, ops::linear(x.value(), w.value(), value_or_none(b)), {x, w, b},
                [gradients = LinearGradients(kOp, x, w, b)](
                    const Tensor& dy, const GradSlots& slots) { return gradients.of(dy, slots); });
}

// y(n,out) = max(0, x(n,in) w(out,in)^T + b(out))
Variable linear_relu(const Variable& x, const Variable& w, const Variable& b) {
  constexpr const char* kOp = "linear_relu";
  const Tensor y = ops::linear_relu(x.value(), w.value(), value_or_none(b));
  return record(kOp, y, {x, w, b},
                [gradients = LinearGradients(kOp, x, w, b), y = Saved(kOp, y)](
                    const Tensor& dy, const GradSlots& slots) {
                  return gradients.of(ops::relu_backward(dy, y.get()), slots);
                });
}

}  // namespace shoal::autograd
