#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/process/fork_server_process.h"

// The launcher's side of StartMethod::forkserver. Private to this folder.
namespace shoal {

// A worker that is another process' child.
struct ForkedWorker {
  pid_t pid = -1;
  Fd pidfd;
  Fd status;  // a WorkerStatus when it has ended; nothing if the server ended before
};

// This process' fork server, one at most. Safe from many threads.
class ForkServer {
 public:
  [[nodiscard]] static ForkServer& instance();
  // Starts it if it does not run. Throws Error(invalid_argument) if main has not called child_main.
  void start();
  // Starts it if need be, once more if it has died. Throws Error for what the server says, and
  // Error(timed_out).
  [[nodiscard]] ForkedWorker fork(ForkRequest request, Deadline deadline);

 private:
  ForkServer() = default;
  void start_locked();
  // Gives up one that has ended, or is another process'.
  void forget() noexcept;

  std::mutex mutex_;
  std::optional<Channel> control_;
  Fd pidfd_;
  pid_t owner_ = -1;
};

}  // namespace shoal
