#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <vector>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/process/process_error.h"

namespace shoal {

// The processes that one launch started. Move-only; for use by one thread at a time. Destruction
// terminates what still runs, so that nothing outlives it, and collects every process.
class ProcessContext {
 public:
  ProcessContext(ProcessContext&& other) noexcept;
  ProcessContext& operator=(ProcessContext&& other) noexcept;
  ~ProcessContext();

  [[nodiscard]] int size() const;
  // By rank; also of those that have ended.
  [[nodiscard]] std::vector<pid_t> pids() const;
  // To the worker of that rank.
  [[nodiscard]] Channel& channel(int rank);

  // Waits for all to end. True when all have succeeded, false at the deadline. At the first failure
  // (of several that happened since the last look, that of the lowest rank) the others are
  // terminated (LaunchOptions) and it is thrown, as ProcessRaised or ProcessExited; so it is by
  // every later call.
  bool join(Deadline deadline = kForever);

  // Waits until one has ended of which wait_any has not told yet, however it ended, and returns its
  // rank. Empty at the deadline, or when it has told of all. Nothing is thrown or terminated.
  [[nodiscard]] std::optional<int> wait_any(Deadline deadline = kForever);

  // Empty while it runs, as far as join and wait_any have looked.
  [[nodiscard]] std::optional<WorkerEnd> end_of(int rank) const;
  // Throws what join would throw of this one, if it has failed.
  void throw_if_failed(int rank) const;
  // What it left in Worker::result, to be taken once. Throws Error(invalid_argument) if it has not
  // ended, or not in success, or if its result was taken.
  [[nodiscard]] Message result(int rank);

  // Ends all that still run: SIGTERM, then, after the grace, SIGKILL.
  void terminate(double grace_seconds);

 private:
  friend class Launcher;
  friend struct LiveContexts;
  struct State;
  explicit ProcessContext(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace shoal
