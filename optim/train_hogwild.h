#pragma once

#include "shoal/optim/train.h"
#include "shoal/runtime/process/launch.h"

namespace shoal::optim {

struct HogwildOptions : TrainOptions {
  int workers = 1;
  StartMethod start_method = StartMethod::spawn;
  SharingStrategy strategy = get_sharing_strategy();  // for what is not shared already
};

// Trains one model from many processes at once, without a lock (Recht, Re, Wright, Niu: "Hogwild!",
// 2011). The parameters W are shared; gradients and momentum are each worker's own. A worker
// computes the gradient of a batch from W as it finds it, and writes its step into W in place.
//
// The contract: a store of one element is whole; between workers steps may be lost or read half
// done, and runs differ from each other. Nothing else may go wrong. It pays where steps are small
// beside the gradient's cost, or touch few of the parameters.
//
// Each worker visits its share of every epoch (epoch_share), at its own pace. The model and the
// data are moved into shared memory, in place, and stay there: after the call the model holds what
// the workers wrote. Workers rebuild the model from Module::spec(), so it must have one.
//
// Throws what launch and ProcessContext::join throw; a failed or killed worker ends the others. The
// parameters then are what had been written.
TrainReport train_hogwild(autograd::Module& model, const Dataset& data,
                          const HogwildOptions& options, const TrainObserver& observer = {});

}  // namespace shoal::optim
