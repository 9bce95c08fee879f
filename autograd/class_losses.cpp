#include <algorithm>
#include <numeric>

#include "shoal/autograd/losses.h"
#include "shoal/autograd/rules.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/dispatch.h"

// Losses whose targets are classes. Each row's loss is a sum over its log-probabilities,
//   loss[i] = -sum over k of a[i,k] logp[i,k],  a[i,k] = (1 - e) w[t] [k = t] + e/c w[k],
// with target t, class weights w and smoothing e.
namespace shoal::autograd {
namespace {

struct Classes {
  const char* name;
  Tensor targets;  // i64 (n), contiguous
  Tensor weight;   // (c), contiguous, or undefined
  std::int64_t ignore_index;
  double smoothing;
  Reduction reduction;
  // The caller's, which the rules check to be what they were.
  Saved saved_targets{}, saved_weight{};
  double total = 0;  // what the mean is divided by

  [[nodiscard]] const Classes& unchanged() const {
    static_cast<void>(saved_targets.get());
    if (weight.defined()) static_cast<void>(saved_weight.get());
    return *this;
  }
};

Classes checked(const char* name, const Tensor& x, const Tensor& targets,
                const ClassLossOptions& options) {
  check(targets.defined() && x.rank() == 2 && targets.dtype() == DType::i64 &&
            targets.shape() == Shape{x.size(0)},
        ErrorKind::invalid_argument, name, "needs x(n,c) and i64 targets(n), given ", x.shape(),
        " and ",
        targets.defined() ? concat(to_string(targets.dtype()), " ", targets.shape())
                          : "undefined ones");
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1, ErrorKind::invalid_argument,
        name, "label_smoothing is ", options.label_smoothing, "; it must be in [0, 1]");
  const Tensor& weight = options.weight;
  check(!weight.defined() || (weight.shape() == Shape{x.size(1)} && weight.dtype() == x.dtype()),
        ErrorKind::invalid_argument, name, "a weight that is no ", to_string(x.dtype()), " [",
        x.size(1), "]");
  Classes classes{.name = name,
                  .targets = targets.contiguous(),
                  .weight = weight.defined() ? weight.contiguous() : weight,
                  .ignore_index = options.ignore_index,
                  .smoothing = options.label_smoothing,
                  .reduction = options.reduction,
                  .saved_targets = Saved(name, targets),
                  .saved_weight = weight.defined() ? Saved(name, weight) : Saved()};
  const auto each = classes.targets.span<std::int64_t>();
  for (std::size_t row = 0; row < each.size(); ++row) {
    const bool known = each[row] >= 0 && each[row] < x.size(1);
    check(known || each[row] == options.ignore_index, ErrorKind::invalid_argument, name, "target ",
          each[row], " of row ", row, " is outside [0, ", x.size(1), ")");
  }
  visit_floating(x.dtype(), [&]<class T>() {
    for (const std::int64_t t : each) {
      if (t == classes.ignore_index) continue;
      classes.total += classes.weight.defined() ? double{classes.weight.data<T>()[t]} : 1;
    }
  });
  return classes;
}

Tensor losses_of(const Tensor& logp, const Classes& classes) {
  const std::int64_t n = logp.size(0), c = logp.size(1);
  Tensor losses = Tensor::empty({n}, logp.dtype());
  visit_floating(logp.dtype(), [&]<class T>() {
    const T* w = classes.weight.defined() ? classes.weight.data<T>() : nullptr;
    const T even = static_cast<T>(classes.smoothing) / static_cast<T>(c);
    const T rest = static_cast<T>(1 - classes.smoothing);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t t = classes.targets.data<std::int64_t>()[i];
      const T* row = logp.data<T>() + i * c;
      T loss = 0;
      if (t != classes.ignore_index) {
        loss = -rest * (w ? w[t] : T{1}) * row[t];
        for (std::int64_t k = 0; even != 0 && k < c; ++k) loss -= even * (w ? w[k] : T{1}) * row[k];
      }
      losses.data<T>()[i] = loss;
    }
  });
  return losses;
}

Tensor result_of(const Tensor& losses, const Classes& classes) {
  if (classes.reduction == Reduction::none) return losses;
  Tensor total = ops::sum(losses);
  if (classes.reduction == Reduction::sum) return total;
  return ops::scale(total, 1 / classes.total);  // 0/0 is NaN: the mean of nothing
}

// dy times d loss / d logp = -a; or, through log_softmax, d loss / d logits = softmax sum(a) - a.
Tensor gradient_of(const Tensor& logp, const Classes& classes, const Tensor& dy, bool of_logits) {
  const std::int64_t n = logp.size(0), c = logp.size(1);
  Tensor dx = of_logits ? ops::exp(logp) : Tensor::empty(logp.shape(), logp.dtype());
  visit_floating(logp.dtype(), [&]<class T>() {
    const T* w = classes.weight.defined() ? classes.weight.data<T>() : nullptr;
    const T even = static_cast<T>(classes.smoothing) / static_cast<T>(c);
    const T rest = static_cast<T>(1 - classes.smoothing);
    const T total = w ? std::accumulate(w, w + c, T{0}) : static_cast<T>(c);
    const bool each = classes.reduction == Reduction::none;
    const Tensor gradient = dy.contiguous();
    T share = each ? T{1} : gradient.data<T>()[0];
    if (classes.reduction == Reduction::mean) share = static_cast<T>(share / classes.total);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t t = classes.targets.data<std::int64_t>()[i];
      T* row = dx.data<T>() + i * c;
      if (t == classes.ignore_index) {
        std::fill_n(row, c, T{0});
        continue;
      }
      const T of_row = each ? gradient.data<T>()[i] : share;
      const T at_target = rest * (w ? w[t] : T{1});
      const T whole = of_logits ? (at_target + even * total) * of_row : T{0};
      for (std::int64_t k = 0; k < c; ++k) {
        const T a = even * (w ? w[k] : T{1}) * of_row;
        row[k] = of_logits ? row[k] * whole - a : -a;
      }
      row[t] -= at_target * of_row;
    }
  });
  return dx;
}

// dy times dx, the gradient of each row's loss by itself.
Tensor shared_out(const Tensor& dx, const Classes& classes, const Tensor& dy) {
  switch (classes.reduction) {
    case Reduction::mean:
      return ops::scale(dx, number(dy) / classes.total);
    case Reduction::sum:
      return ops::scale(dx, number(dy));
    case Reduction::none:
      break;
  }
  return ops::mul(dx, dy.reshape({dy.numel(), 1}));
}

}  // namespace

// y = -a logp, by row
Variable nll_loss(const Variable& logp, const Tensor& targets, const ClassLossOptions& options) {
  check(options.label_smoothing == 0, ErrorKind::invalid_argument, "nll_loss",
        "label_smoothing is cross_entropy's alone");
  const Classes classes = checked("nll_loss", logp.value(), targets, options);
  const Tensor x = logp.value().contiguous();
  return record("nll_loss", result_of(losses_of(x, classes), classes), {logp},
                [x, classes](const Tensor& dy) {
                  return Grads{gradient_of(x, classes.unchanged(), dy, false)};
                });
}

// y = -a log_softmax(logits), by row
Variable cross_entropy(const Variable& logits, const Tensor& targets,
                       const ClassLossOptions& options) {
  const Classes classes = checked("cross_entropy", logits.value(), targets, options);
  // The common case in one pass; in its rows, what is ignored has a negative target.
  if (!classes.weight.defined() && classes.smoothing == 0 && classes.ignore_index < 0) {
    const auto [losses, dx] = ops::cross_entropy(logits.value(), classes.targets);
    return record(
        "cross_entropy", result_of(losses, classes), {logits},
        [dx = dx, classes](const Tensor& dy) { return Grads{shared_out(dx, classes, dy)}; });
  }
  const Tensor logp = ops::log_softmax(logits.value());
  return record("cross_entropy", result_of(losses_of(logp, classes), classes), {logits},
                [logp, classes](const Tensor& dy) {
                  return Grads{gradient_of(logp, classes.unchanged(), dy, true)};
                });
}

}  // namespace shoal::autograd
