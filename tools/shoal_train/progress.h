#pragma once

#include <string>

#include "shoal/optim/train.h"

namespace shoal::tools {

// Tells on standard error how a training goes: on a terminal one line that is kept up to date,
// elsewhere a line per epoch.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const optim::TrainProgress& progress, int epochs);
  // A line of its own.
  void say(const std::string& line);

 private:
  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  int epochs_told_ = 0;
};

}  // namespace shoal::tools
