#pragma once

#include <sys/types.h>

#include <memory>
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
  // the others are terminated and it is thrown, as ProcessRaised or ProcessExited; so it is by
  // every later call.
  bool join(Deadline deadline = kForever);

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
