#include <vector>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"
#include "shoal/runtime/base/error.h"

// Results share their elements with x where that is possible, as tensors do.
namespace shoal::autograd {

// y(shape) has the elements of x(…) in their order
Variable reshape(const Variable& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape), {x},
                [from = x.shape()](const Tensor& dy) { return Grads{dy.reshape(from)}; });
}

// y(…,b,…,a,…) from x(…,a,…,b,…)
Variable transpose(const Variable& x, int axis0, int axis1) {
  return record("transpose", x.value().transpose(axis0, axis1), {x},
                [axis0, axis1](const Tensor& dy) { return Grads{dy.transpose(axis0, axis1)}; });
}

// y with the axes of x in reverse
Variable transpose(const Variable& x) {
  return record("transpose", x.value().transpose(), {x},
                [](const Tensor& dy) { return Grads{dy.transpose()}; });
}

// y has the elements start, start + step, … of x along an axis
Variable slice(const Variable& x, int axis, std::int64_t start, std::int64_t end,
               std::int64_t step) {
  return record("slice", x.value().slice(axis, start, end, step), {x},
                [shape = x.shape(), axis, start, end, step](const Tensor& dy) {
                  const Tensor dx = Tensor::zeros(shape, dy.dtype());
                  dx.slice(axis, start, end, step).copy_(dy);
                  return Grads{dx};
                });
}

// y(…,sum of n,…) from all x(…,n,…)
Variable cat(std::span<const Variable> parts, int axis) {
  std::vector<Tensor> values;
  values.reserve(parts.size());
  for (const Variable& part : parts) values.push_back(part.value());
  const Tensor y = ops::cat(values, axis);
  std::vector<Operand> operands(parts.begin(), parts.end());
  return record("cat", y, Variables(parts.begin(), parts.end()),
                [operands = std::move(operands),
                 axis = normalize_axis(axis, y.rank(), "cat")](const Tensor& dy) {
                  Grads grads;
                  grads.reserve(operands.size());
                  std::int64_t at = 0;
                  for (const Operand& operand : operands) {
                    const std::int64_t size = operand.shape()[axis];
                    grads.push_back(operand.grad([&] { return dy.slice(axis, at, at + size); }));
                    at += size;
                  }
                  return grads;
                });
}

}  // namespace shoal::autograd
