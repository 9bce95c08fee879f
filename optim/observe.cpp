#include "shoal/optim/observe.h"

namespace shoal::optim {

Observing::Observing(const TrainBoard& board, std::int64_t samples_per_epoch,
                     TrainObserver observer)
    : board_(board), samples_per_epoch_(samples_per_epoch), observer_(std::move(observer)) {}

double Observing::seconds() const {
  return std::chrono::duration<double>(Deadline::Clock::now() - start_).count();
}

void Observing::look() {
  if (!observer_) return;
  TrainProgress progress = board_.progress(samples_per_epoch_, epochs_done_);
  const bool epoch_done = progress.epochs_done > epochs_done_;
  if (!epoch_done && !next_.expired()) return;
  // Between epochs nothing new is known of the loss.
  if (progress.samples == epochs_done_ * samples_per_epoch_) progress.loss = loss_;
  loss_ = progress.loss;
  epochs_done_ = progress.epochs_done;
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
