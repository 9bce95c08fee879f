#include "shoal/optim/train_share.h"

#include <algorithm>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

using autograd::Variable;

Variable loss_of(Loss loss, const Variable& output, const Tensor& targets) {
  return loss == Loss::cross_entropy ? autograd::cross_entropy(output, targets)
                                     : autograd::mse_loss(output, Variable(targets));
}

// `done` of `share` samples into the epoch.
double lr_at(const TrainOptions& options, int epoch, std::size_t done, std::size_t share) {
  const double progress =
      (epoch + static_cast<double>(done) / static_cast<double>(share)) / options.epochs;
  return options.sgd.lr * (1 - (1 - options.lr_final) * progress);
}

double number(const Tensor& scalar) { return scalar.to(DType::f64).item<double>(); }

}  // namespace

void TrainOptions::validate() const {
  check(epochs >= 1, ErrorKind::invalid_argument, "train", epochs, " epochs; at least 1 is needed");
  check(batch_size >= 1, ErrorKind::invalid_argument, "train", "a batch of ", batch_size,
        " samples; at least 1 is needed");
  check(lr_final >= 0 && lr_final <= 1, ErrorKind::invalid_argument, "train", "lr_final is ",
        lr_final, "; it must be from 0 to 1");
}

void train_share(autograd::Module& model, const Dataset& data, const TrainOptions& options,
                 int rank, int world_size, const TrainBoard& board,
                 const std::function<void()>& after_batch) {
  Sgd sgd(model, options.sgd);
  const DType dtype = model.flatten().values.dtype();
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const auto share = epoch_share(data.size(), options.seed, epoch, rank, world_size);
    std::span<const std::int64_t> left(share);
    while (!left.empty()) {
      const auto indices =
          left.first(std::min(left.size(), static_cast<std::size_t>(options.batch_size)));
      left = left.subspan(indices.size());
      const Batch batch = gather(data, indices, dtype);

      sgd.set_lr(lr_at(options, epoch, share.size() - left.size() - indices.size(), share.size()));
      sgd.zero_grad();
      const Variable loss =
          loss_of(options.loss, model.forward(Variable(batch.inputs)), batch.targets);
      loss.backward();
      sgd.step();

      const auto n = static_cast<std::int64_t>(indices.size());
      board.add(rank, epoch, n, number(loss.value()) * static_cast<double>(n));
      after_batch();
    }
  }
}

}  // namespace shoal::optim
