#pragma once

#include <string>

#include "shoal/optim/train.h"
#include "shoal/tools/shoal_train/options.h"

namespace shoal::tools {

// The outcome, as one line of JSON and as a sentence.
[[nodiscard]] std::string to_json(const TrainCommand& command, const optim::TrainReport& report,
                                  double test_accuracy);
[[nodiscard]] std::string to_text(const TrainCommand& command, const optim::TrainReport& report,
                                  double test_accuracy);

}  // namespace shoal::tools
