#pragma once

#include "shoal/autograd/module.h"
#include "shoal/optim/dataset.h"

namespace shoal::optim {

// The share of samples whose largest output is the one of their class, in [0, 1]. Records no graph.
[[nodiscard]] double accuracy(autograd::Module& model, const Dataset& data,
                              std::int64_t batch_size = 256);

}  // namespace shoal::optim
