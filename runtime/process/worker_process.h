#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/process/entry.h"

// The worker's side of launch. Private to this folder.
namespace shoal {

// The descriptors that a worker is born with.
struct WorkerEnds {
  Fd channel;   // its end of the channel to the launcher
  Fd report;    // the writing end of a pipe: why the entry failed
  Fd launcher;  // a pidfd of the launcher, readable once that has ended
};

// One failure as the report pipe carries it: type, a zero byte, message. Fits the pipe.
struct FailureReport {
  std::string type{};
  std::string message{};
  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static FailureReport decode(const std::string& text);
};

// Watches the launcher, receives the arguments, runs the entry. Returns the exit code.
[[nodiscard]] int run_worker(const std::function<int(Worker&)>& entry, int rank, int world_size,
                             WorkerEnds ends) noexcept;

// The command line of a spawned worker, and back.
[[nodiscard]] std::vector<std::string> worker_arguments(const std::string& entry, int rank,
                                                        int world_size, const WorkerEnds& ends);

// Whether this process' main has called child_main.
[[nodiscard]] bool child_main_was_called();

}  // namespace shoal
