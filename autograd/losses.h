#pragma once

#include "shoal/autograd/variable.h"

// What training makes small. As functions.h in dtypes and errors.
namespace shoal::autograd {

// The mean over rows of -log_softmax(logits(n,c))[i, targets(i)], as a scalar. `targets` are i64
// classes in [0, c); others throw Error(invalid_argument) that names row and value. NaN for n = 0.
[[nodiscard]] Variable cross_entropy(const Variable& logits, const Tensor& targets);

// The mean over all elements of (prediction - target)^2, as a scalar; shapes are alike.
[[nodiscard]] Variable mse_loss(const Variable& prediction, const Variable& target);

}  // namespace shoal::autograd
