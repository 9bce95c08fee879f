#include "shoal/tools/shoal_train/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "shoal/runtime/base/error.h"

namespace shoal::tools {
namespace {

std::string describe(const optim::TrainProgress& progress, int epochs) {
  const double rate =
      progress.seconds > 0 ? static_cast<double>(progress.samples) / progress.seconds : 0;
  const double left =
      rate > 0 ? static_cast<double>(progress.total_samples - progress.samples) / rate : 0;
  char text[160];
  std::snprintf(text, sizeof text, "epoch %d/%d  loss %.4f  %.0f samples/s  %.0f s left",
                std::min(progress.epochs_done + 1, epochs), epochs, progress.loss, rate,
                std::ceil(left));
  return text;
}

}  // namespace

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (line_open_) std::cerr << '\n';
}

void Progress::show(const optim::TrainProgress& progress, int epochs) {
  if (quiet_) return;
  if (terminal_) {
    // Back to the start of the line, and erase what an earlier, longer text left.
    std::cerr << '\r' << describe(progress, epochs) << "\x1b[K" << std::flush;
    line_open_ = true;
  } else if (progress.epochs_done > epochs_told_) {
    epochs_told_ = progress.epochs_done;
    // The epoch that has just ended is the one to name.
    optim::TrainProgress ended = progress;
    --ended.epochs_done;
    std::cerr << describe(ended, epochs) << std::endl;
  }
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  if (line_open_) std::cerr << '\n';
  line_open_ = false;
  std::cerr << line << std::endl;
}

}  // namespace shoal::tools
