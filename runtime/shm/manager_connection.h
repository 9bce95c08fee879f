#pragma once

#include <string>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/manager_protocol.h"

namespace shoal::manager {

// One conversation with a manager. Not for two threads at once.
class Connection {
 public:
  // Connects. Throws Error: not_found if nobody listens, timed_out, unsupported if whoever does is
  // neither this user nor root.
  Connection(const std::string& socket_path, Deadline deadline);
  // Says hello where it has not been said; sends, and waits for the answer. Throws Error:
  // timed_out, peer_gone, malformed, version_mismatch, and limit_reached with the manager's reason
  // where it refuses. What the connection says after an error means nothing.
  [[nodiscard]] Frame ask(const Frame& request, Deadline deadline);
  // False once the manager has ended or closed it, without asking anything. One system call.
  [[nodiscard]] bool is_open() const noexcept;
  // The manager's process, once it has been asked.
  [[nodiscard]] std::uint32_t manager_pid() const { return manager_pid_; }

 private:
  void greet(Deadline deadline);
  [[nodiscard]] Frame exchange(const Frame& request, Deadline deadline);

  Fd socket_;
  std::string path_;
  bool greeted_ = false;
  std::uint32_t manager_pid_ = 0;
};

}  // namespace shoal::manager
