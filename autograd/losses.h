#pragma once

#include <cstdint>

#include "shoal/autograd/variable.h"

// What training makes small. As functions.h in dtypes and errors.
namespace shoal::autograd {

// How the losses of rows, or of elements, become one: their mean, their sum, or not at all.
enum class Reduction { mean, sum, none };

// For losses whose targets are classes.
struct ClassLossOptions {
  // Of each class, c of them, in the logits' dtype; undefined: all 1. The mean is divided by the
  // sum of the weights of the targets.
  Tensor weight{};
  // Rows with this target count nothing, and need not name a class.
  std::int64_t ignore_index = -100;
  // Of cross_entropy: so much of the target is spread evenly over all classes; in [0, 1].
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};

// Of log-probabilities logp(n,c): -weight[t] logp[i, t] for each row i with target t = targets(i).
// `targets` are i64 classes in [0, c); others throw Error(invalid_argument) that names row and
// value, unless they are ignored. The mean of no rows is NaN.
[[nodiscard]] Variable nll_loss(const Variable& logp, const Tensor& targets,
                                const ClassLossOptions& options = {});

// nll_loss of log_softmax(logits(n,c)), in one pass; with smoothing e, of each row
//   (1 - e) weight[t] (-logp[t]) + e/c sum over k of weight[k] (-logp[k]).
// Source: PyTorch's torch.nn.functional.cross_entropy.
[[nodiscard]] Variable cross_entropy(const Variable& logits, const Tensor& targets,
                                     const ClassLossOptions& options = {});

// (prediction - target)^2 of each element; shapes are alike.
[[nodiscard]] Variable mse_loss(const Variable& prediction, const Variable& target,
                                Reduction reduction = Reduction::mean);

// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) of each element, for targets t in [0, 1]; large
// x do not overflow. Shapes and dtypes are alike.
[[nodiscard]] Variable bce_with_logits(const Variable& x, const Tensor& targets,
                                       Reduction reduction = Reduction::mean);

// max(0, 1 - t x) of each element, for targets t of -1 and 1. The gradient at the kink is 0.
[[nodiscard]] Variable hinge_loss(const Variable& x, const Tensor& targets,
                                  Reduction reduction = Reduction::mean);

}  // namespace shoal::autograd
