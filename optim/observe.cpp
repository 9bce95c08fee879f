#include "shoal/optim/observe.h"

namespace shoal::optim {

Observing::Observing(const TrainBoard& board, std::int64_t samples_per_epoch,
                     TrainObserver observer)
    : board_(board),
      samples_per_epoch_(samples_per_epoch),
      observer_(std::move(observer)),
      epoch_end_(samples_per_epoch) {}

double Observing::seconds() const {
  return std::chrono::duration<double>(Deadline::Clock::now() - start_).count();
}

void Observing::look() {
  if (!observer_) return;
  TrainProgress progress = board_.progress(samples_per_epoch_);
  const bool epoch_done = progress.epochs_done * samples_per_epoch_ >= epoch_end_;
  if (!epoch_done && !next_.expired()) return;
  if (epoch_done) epoch_end_ = (progress.epochs_done + 1) * samples_per_epoch_;
  next_ = in_seconds(kInterval);
  progress.seconds = seconds();
  observer_(progress);
}

TrainReport Observing::report() const {
  return {.samples = board_.progress(samples_per_epoch_).samples,
          .seconds = seconds(),
          .epoch_losses = board_.epoch_losses()};
}

}  // namespace shoal::optim
