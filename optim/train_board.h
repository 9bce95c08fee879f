#pragma once

#include "shoal/optim/train.h"

namespace shoal::optim {

// Where workers write how far they are: for each worker and epoch the samples seen and the sum of
// their losses. One worker writes a row, anybody may read it at any time, also from other
// processes.
class TrainBoard {
 public:
  // In shared memory.
  TrainBoard(int workers, int epochs, SharingStrategy strategy);
  // The same board in another process, from tensors().
  TrainBoard(Tensor samples, Tensor losses, int epochs);

  // Adds a batch of `samples` whose losses sum to `loss`. By the worker of that rank alone.
  void add(int rank, int epoch, std::int64_t samples, double loss) const;

  // Of all workers, out of `samples_per_epoch` each epoch. The first `done` epochs are known to be
  // done, and not looked at again.
  [[nodiscard]] TrainProgress progress(std::int64_t samples_per_epoch, int done = 0) const;
  [[nodiscard]] std::vector<double> epoch_losses() const;

  [[nodiscard]] std::vector<Tensor> tensors() const { return {samples_, losses_}; }

 private:
  struct Sum {
    std::int64_t samples = 0;
    double loss = 0;
  };
  [[nodiscard]] Sum sum(int epoch) const;

  Tensor samples_;  // i64 (workers, epochs, padded)
  Tensor losses_;   // f64, likewise
  int epochs_;
};

}  // namespace shoal::optim
