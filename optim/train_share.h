#pragma once

#include "shoal/optim/train.h"
#include "shoal/optim/train_board.h"

namespace shoal::optim {

// The loop that every worker runs: its share of each epoch, batch by batch: forward, loss,
// backward, step. `after_batch` is called after each.
void train_share(
    autograd::Module& model, const Dataset& data, const TrainOptions& options, int rank,
    int world_size, const TrainBoard& board, const std::function<void()>& after_batch = [] {});

}  // namespace shoal::optim
