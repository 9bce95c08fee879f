#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

namespace shoal::autograd {

// y(…,m,n) = a(…,m,k) b(…,k,n)
Variable matmul(const Variable& a, const Variable& b) {
  return record("matmul", ops::matmul(a.value(), b.value()), {a, b}, [a, b](const Tensor& dy) {
    // da(…,m,k) and db(…,k,n), summed over what was broadcast
    return Grads{grad_for(a,
                          [&] {
                            const Tensor da = ops::matmul(dy, b.value().transpose(-2, -1));
                            return ops::sum_to(da, a.shape());
                          }),
                 grad_for(b, [&] {
                   const Tensor db = ops::matmul(a.value().transpose(-2, -1), dy);
                   return ops::sum_to(db, b.shape());
                 })};
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

}  // namespace shoal::autograd
