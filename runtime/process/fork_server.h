#pragma once

#include <sys/types.h>

#include <cstdint>
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
  // Starts it if need be. Throws Error for what the server says, Error(timed_out), and
  // Error(peer_gone) if it has died: nobody knows then whether it had started the worker, which
  // sees its ends close once the caller has given up his.
  [[nodiscard]] ForkedWorker fork(ForkRequest request, Deadline deadline);
  // In a forked child, which has no use for its parent's.
  void drop_copy() noexcept;

  // Around fork.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  ForkServer() = default;
  void start_locked();
  // Gives up one that has ended, or is another process'.
  void forget() noexcept;

  std::mutex mutex_;
  std::optional<Channel> control_;
  Fd pidfd_;
  pid_t owner_ = -1;
  std::uint64_t requests_ = 0;
};

}  // namespace shoal
