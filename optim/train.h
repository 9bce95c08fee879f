#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/optim/dataset.h"
#include "shoal/optim/sgd.h"

namespace shoal::optim {

enum class Loss : std::uint8_t {
  cross_entropy,  // targets are classes
  mse,            // targets are values
};

// What every training mode is told.
struct TrainOptions {
  int epochs = 1;
  std::int64_t batch_size = 32;
  SgdOptions sgd{};
  // The learning rate goes linearly from sgd.lr at the first step to lr_final times that at the
  // last; 1 keeps it. Small steps at the end settle what large ones leave in motion.
  double lr_final = 1;
  Loss loss = Loss::cross_entropy;
  std::uint64_t seed = 0;  // of the order of samples

  // Throws Error(invalid_argument) for fewer than one epoch, a batch of no samples, or
  // lr_final outside [0, 1].
  void validate() const;
};

// How far a training is. Numbers of several workers are summed as each last wrote them.
struct TrainProgress {
  int epochs_done = 0;  // by all workers
  std::int64_t samples = 0;
  std::int64_t total_samples = 0;
  double loss = 0;  // mean over the latest epoch in which all workers are, or which they ended
  double seconds = 0;
};

struct TrainReport {
  std::int64_t samples = 0;
  double seconds = 0;                // from the start of the first worker to the end of the last
  std::vector<double> epoch_losses;  // mean over each epoch's samples, as they were trained on
};

// Called about ten times a second while a training runs, and after each epoch; in the caller's
// thread. An exception ends the training and passes through.
using TrainObserver = std::function<void(const TrainProgress&)>;

}  // namespace shoal::optim
