#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

namespace shoal::autograd {

// y(n,o,h',w') = x(n,c,h,w) convolved with weight(o,c,kh,kw), + b(o)
Variable conv2d(const Variable& x, const Variable& weight, const Variable& b,
                const ops::Conv2dOptions& options) {
  constexpr const char* kOp = "conv2d";
  return record(
      kOp, ops::conv2d(x.value(), weight.value(), value_or_none(b), options), {x, weight, b},
      [x = Operand(kOp, x, weight), w = Operand(kOp, weight, x), b = Operand(b), options](
          const Tensor& dy, const GradSlots& slots) {
        return Grads{
            x.grad([&] { return ops::conv2d_backward_x(dy, w.value(), x.shape(), options); }),
            w.grad([&] {
              const auto [grad, add] = slots[1];
              Tensor dw = grad.defined() ? grad : Tensor::empty(w.shape(), dy.dtype());
              ops::conv2d_backward_weight(dw, dy, x.value(), options, add);
              return dw;
            }),
            b.grad([&] {  // db(o)
              const Tensor planes = dy.reshape({dy.size(0), dy.size(1), dy.size(2) * dy.size(3)});
              return ops::sum(ops::sum(planes, 2), 0);
            })};
      });
}

// y(n,c,h',w') = the largest of each window of x(n,c,h,w)
Variable max_pool2d(const Variable& x, std::int64_t kernel, std::int64_t stride) {
  const auto [y, index] = ops::max_pool2d(x.value(), kernel, stride == 0 ? kernel : stride);
  return record("max_pool2d", y, {x}, [shape = x.shape(), index = index](const Tensor& dy) {
    return Grads{ops::max_pool2d_backward(dy, index, shape)};
  });
}

}  // namespace shoal::autograd
