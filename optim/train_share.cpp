#include "shoal/optim/train_share.h"

#include <algorithm>

#include "shoal/autograd/functions.h"
#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

using autograd::Variable;

Variable loss_of(Loss loss, const Variable& output, const Tensor& targets) {
  return loss == Loss::cross_entropy ? autograd::cross_entropy(output, targets)
                                     : autograd::mse_loss(output, Variable(targets));
}

double number(const Tensor& scalar) { return scalar.to(DType::f64).item<double>(); }

}  // namespace

void TrainOptions::validate() const {
  check(epochs >= 1, ErrorKind::invalid_argument, "train", epochs, " epochs; at least 1 is needed");
  check(batch_size >= 1, ErrorKind::invalid_argument, "train", "a batch of ", batch_size,
        " samples; at least 1 is needed");
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
