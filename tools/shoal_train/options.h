#pragma once

#include <optional>
#include <string>

#include "shoal/optim/train_hogwild.h"

namespace shoal::tools {

enum class Mode { single, hogwild };
enum class Model { mlp, cnn };

[[nodiscard]] std::string to_string(Mode mode);

// What the command line asks for.
struct TrainCommand {
  Mode mode = Mode::single;
  Model model = Model::mlp;
  std::string data;
  std::int64_t hidden = 128;
  std::int64_t limit = 0;  // training samples; 0 is all
  std::string load;        // empty: start from random parameters
  std::string save;        // empty: do not save
  bool json = false;
  bool quiet = false;
  optim::HogwildOptions training;
};

// Empty when the program is to end at once with `exit_code`: help was shown, or the arguments were
// wrong and it has been said how.
[[nodiscard]] std::optional<TrainCommand> parse_command(int argc, char** argv, int& exit_code);

}  // namespace shoal::tools
