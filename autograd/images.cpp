#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

namespace shoal::autograd {

// y(n,o,h',w') = x(n,c,h,w) convolved with weight(o,c,kh,kw), + b(o)
Variable conv2d(const Variable& x, const Variable& weight, const Variable& b,
                const ops::Conv2dOptions& options) {
  const Tensor bias = b.defined() ? b.value() : Tensor{};
  return record(
      "conv2d", ops::conv2d(x.value(), weight.value(), bias, options), {x, weight, b},
      [x, weight, b, options](const Tensor& dy) {
        return Grads{
            grad_for(
                x, [&] { return ops::conv2d_backward_x(dy, weight.value(), x.shape(), options); }),
            grad_for(weight,
                     [&] {
                       return ops::conv2d_backward_weight(dy, x.value(), weight.shape(), options);
                     }),
            grad_for(b, [&] { return ops::sum(ops::sum(ops::sum(dy, 3), 2), 0); })};  // db(o)
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
