#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/dispatch.h"

namespace shoal::autograd {
namespace {

// Of this shape: 0 with probability p, else 1 / (1 - p).
Tensor draw_mask(const Shape& shape, DType dtype, double p, Generator& generator, const char* op) {
  check(p >= 0 && p < 1, ErrorKind::invalid_argument, op, "p is ", p, "; it must be in [0, 1)");
  Tensor mask = Tensor::empty(shape, dtype);
  visit_floating(dtype, [&]<class T>() {
    const T kept = static_cast<T>(1 / (1 - p));
    for (T& element : mask.span<T>()) element = generator.chance(p) ? T{0} : kept;
  });
  return mask;
}

Variable masked(const char* op, const Variable& x, const Tensor& mask) {
  return record(op, ops::mul(x.value(), mask), {x},
                [mask](const Tensor& dy) { return Grads{ops::mul(dy, mask)}; });
}

}  // namespace

// y = x m, element by element, with a random m
Variable dropout(const Variable& x, double p, Generator& generator) {
  return masked("dropout", x, draw_mask(x.shape(), x.dtype(), p, generator, "dropout"));
}

// y(n,c,h,w) = x(n,c,h,w) m(n,c,1,1), with a random m
Variable dropout2d(const Variable& x, double p, Generator& generator) {
  const Shape& shape = x.shape();
  check(shape.rank() == 4, ErrorKind::invalid_argument, "dropout2d", "needs x(n,c,h,w), given ",
        shape);
  return masked("dropout2d", x,
                draw_mask({shape[0], shape[1], 1, 1}, x.dtype(), p, generator, "dropout2d"));
}

}  // namespace shoal::autograd
