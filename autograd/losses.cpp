#include "shoal/autograd/losses.h"

#include "shoal/autograd/rules.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {
namespace {

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
