#pragma once

#include "shoal/optim/train.h"
#include "shoal/optim/train_board.h"
#include "shoal/runtime/base/deadline.h"

namespace shoal::optim {

// Looks at a board now and then and tells the observer.
class Observing {
 public:
  Observing(const TrainBoard& board, std::int64_t samples_per_epoch, TrainObserver observer);

  // Tells the observer if an epoch was finished or a tenth of a second has passed since.
  void look();

  [[nodiscard]] TrainReport report() const;

  static constexpr double kInterval = 0.1;  // seconds

 private:
  [[nodiscard]] double seconds() const;

  const TrainBoard& board_;
  std::int64_t samples_per_epoch_;
  TrainObserver observer_;
  Deadline::Clock::time_point start_ = Deadline::Clock::now();
  Deadline next_ = in_seconds(kInterval);
  int epochs_done_ = 0;
  double loss_ = 0;
};

}  // namespace shoal::optim
