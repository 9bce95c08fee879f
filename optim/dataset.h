#pragma once

#include <span>

#include "shoal/runtime/tensor/tensor.h"

namespace shoal::optim {

// Samples to learn from: inputs(N, …) and a target for each. Classes are i64 targets(N); values are
// targets(N, …) of the model's dtype. Inputs may be integers, pixels say, which take a quarter of
// the memory; a batch turns them into the model's dtype as scale * x + shift.
struct Dataset {
  Tensor inputs;
  Tensor targets;
  double scale = 1;
  double shift = 0;

  [[nodiscard]] std::int64_t size() const { return inputs.size(0); }

  // The first n samples, copied, so that sharing them does not share the rest; all if there are
  // fewer.
  [[nodiscard]] Dataset first(std::int64_t n) const;

  // Throws Error(invalid_argument) unless there is a sample, and a target for each.
  void validate() const;
};

struct Batch {
  Tensor inputs;   // (B, …), f32 or f64, or i64
  Tensor targets;  // (B) or (B, …)
};

// Copies the samples at `indices`, each in [0, size), in that order; the inputs become `dtype`,
// but for i64, which are indices and stay so, unscaled.
[[nodiscard]] Batch gather(const Dataset& data, std::span<const std::int64_t> indices, DType dtype);

// Which samples one of several workers visits in an epoch, in order: all workers draw the same
// permutation of n samples from seed + epoch, and worker `rank` takes every `world_size`-th of it.
// So together they visit each sample once. Source of the rule: PyTorch's DistributedSampler, but
// without padding.
[[nodiscard]] std::vector<std::int64_t> epoch_share(std::int64_t n, std::uint64_t seed, int epoch,
                                                    int rank, int world_size);

}  // namespace shoal::optim
