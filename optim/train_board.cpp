#include "shoal/optim/train_board.h"

#include <atomic>

#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

// A worker's row fills whole cache lines, so that workers do not slow each other down.
constexpr std::int64_t kLine = 8;

Shape board_shape(int workers, int epochs) {
  return {workers, (epochs + kLine - 1) / kLine * kLine};
}

}  // namespace

TrainBoard::TrainBoard(int workers, int epochs, SharingStrategy strategy)
    : TrainBoard(Tensor::zeros_shared(board_shape(workers, epochs), DType::i64, strategy),
                 Tensor::zeros_shared(board_shape(workers, epochs), DType::f64, strategy), epochs) {
}

TrainBoard::TrainBoard(Tensor samples, Tensor losses, int epochs)
    : samples_(std::move(samples)), losses_(std::move(losses)), epochs_(epochs) {
  check(samples_.rank() == 2 && samples_.shape() == losses_.shape() && samples_.size(1) >= epochs,
        ErrorKind::invalid_argument, "TrainBoard", "shapes ", samples_.shape(), " and ",
        losses_.shape(), " do not hold ", epochs, " epochs");
}

void TrainBoard::add(int rank, int epoch, std::int64_t samples, double loss) const {
  // The only writer of these cells, so it may read, add and store. Relaxed for the sum, then
  // release for the count: who sees the count also sees the sum that belongs to it.
  const std::atomic_ref<double> sum(losses_.at<double>(rank, epoch));
  const std::atomic_ref<std::int64_t> count(samples_.at<std::int64_t>(rank, epoch));
  sum.store(sum.load(std::memory_order_relaxed) + loss, std::memory_order_relaxed);
  count.store(count.load(std::memory_order_relaxed) + samples, std::memory_order_release);
}

TrainBoard::Sum TrainBoard::sum(int epoch) const {
  Sum total;
  for (std::int64_t rank = 0; rank < samples_.size(0); ++rank) {
    const std::atomic_ref<std::int64_t> count(samples_.at<std::int64_t>(rank, epoch));
    const std::atomic_ref<double> loss(losses_.at<double>(rank, epoch));
    total.samples += count.load(std::memory_order_acquire);
    total.loss += loss.load(std::memory_order_relaxed);
  }
  return total;
}

TrainProgress TrainBoard::progress(std::int64_t samples_per_epoch, int done) const {
  TrainProgress progress{.epochs_done = done,
                         .samples = done * samples_per_epoch,
                         .total_samples = samples_per_epoch * epochs_};
  bool current = true;
  for (int epoch = done; epoch < epochs_; ++epoch) {
    const Sum total = sum(epoch);
    if (total.samples == 0) break;  // nobody is there yet, nor further
    progress.samples += total.samples;
    if (current) progress.loss = total.loss / static_cast<double>(total.samples);
    current = current && total.samples == samples_per_epoch;
    if (current) ++progress.epochs_done;
  }
  return progress;
}

std::vector<double> TrainBoard::epoch_losses() const {
  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs_; ++epoch) {
    const Sum total = sum(epoch);
    losses.push_back(total.loss / static_cast<double>(total.samples));
  }
  return losses;
}

}  // namespace shoal::optim
