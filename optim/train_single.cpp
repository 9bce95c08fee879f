#include "shoal/optim/train_single.h"

#include "shoal/optim/observe.h"
#include "shoal/optim/train_share.h"

namespace shoal::optim {

TrainReport train_single(autograd::Module& model, const Dataset& data, const TrainOptions& options,
                         const TrainObserver& observer) {
  options.validate();
  data.validate();
  const TrainBoard board(1, options.epochs, SharingStrategy::file_descriptor);
  Observing observing(board, data.size(), observer);
  train_share(model, data, options, 0, 1, board, [&] { observing.look(); });
  return observing.report();
}

}  // namespace shoal::optim
