#pragma once

#include "shoal/optim/train.h"

namespace shoal::optim {

// Trains in this thread. The reference for the other modes: same samples, same order, one worker.
// Two runs with equal arguments give equal bits.
TrainReport train_single(autograd::Module& model, const Dataset& data, const TrainOptions& options,
                         const TrainObserver& observer = {});

}  // namespace shoal::optim
