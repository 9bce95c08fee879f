#include "shoal/autograd/losses.h"

#include "shoal/autograd/rules.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {
namespace {

// y of one loss for each element.
Tensor reduce(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return ops::mean(losses);
    case Reduction::sum:
      return ops::sum(losses);
    case Reduction::none:
      break;
  }
  return losses;
}

// x(…) times what each of them has in the result, whose gradient is dy.
Tensor scale_by_share(const Tensor& x, const Tensor& dy, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return ops::scale(x, number(dy) * one_of(x.numel()));
    case Reduction::sum:
      return ops::scale(x, number(dy));
    case Reduction::none:
      break;
  }
  return ops::mul(x, dy);
}

void check_targets(const Variable& x, const Tensor& targets, const char* name) {
  check(targets.defined() && targets.shape() == x.shape() && targets.dtype() == x.dtype(),
        ErrorKind::invalid_argument, name, "needs targets like x of ", to_string(x.dtype()), " ",
        x.shape(),
        targets.defined() ? concat(", given ", to_string(targets.dtype()), " ", targets.shape())
                          : ", given undefined ones");
}

}  // namespace

// y = d(…)^2, where d = prediction - target
Variable mse_loss(const Variable& prediction, const Variable& target, Reduction reduction) {
  check(prediction.shape() == target.shape(), ErrorKind::invalid_argument, "mse_loss", "shapes ",
        prediction.shape(), " and ", target.shape(), " differ");
  const Tensor d = ops::sub(prediction.value(), target.value());
  return record(
      "mse_loss", reduce(ops::square(d), reduction), {prediction, target},
      [prediction = Operand(prediction), target = Operand(target), d, reduction](const Tensor& dy) {
        const Tensor gradient = ops::scale(scale_by_share(d, dy, reduction), 2);
        return Grads{prediction.grad([&] { return Tensor(gradient); }),
                     target.grad([&] { return ops::neg(gradient); })};
      });
}

// y = max(x, 0) - x t + log(1 + exp(-|x|)): dx = sigmoid(x) - t
Variable bce_with_logits(const Variable& x, const Tensor& targets, Reduction reduction) {
  check_targets(x, targets, "bce_with_logits");
  const Tensor& logits = x.value();
  const Tensor tail =
      ops::log(ops::add(Tensor::ones(x.shape(), x.dtype()), ops::exp(ops::neg(ops::abs(logits)))));
  const Tensor losses = ops::add(ops::sub(ops::relu(logits), ops::mul(logits, targets)), tail);
  return record("bce_with_logits", reduce(losses, reduction), {x},
                [x = Saved("bce_with_logits", logits), targets = Saved("bce_with_logits", targets),
                 reduction](const Tensor& dy) {
                  const Tensor dx = ops::sub(ops::sigmoid(x.get()), targets.get());
                  return Grads{scale_by_share(dx, dy, reduction)};
                });
}

// y = max(0, 1 - t x): dx = -t where y > 0
Variable hinge_loss(const Variable& x, const Tensor& targets, Reduction reduction) {
  check_targets(x, targets, "hinge_loss");
  const Tensor one = Tensor::ones(x.shape(), x.dtype());
  const Tensor losses = ops::relu(ops::sub(one, ops::mul(x.value(), targets)));
  return record("hinge_loss", reduce(losses, reduction), {x},
                [losses = Saved("hinge_loss", losses), targets = Saved("hinge_loss", targets),
                 reduction](const Tensor& dy) {
                  const Tensor dx = ops::relu_backward(ops::neg(targets.get()), losses.get());
                  return Grads{scale_by_share(dx, dy, reduction)};
                });
}

}  // namespace shoal::autograd
