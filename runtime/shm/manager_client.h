#pragma once

#include <string>
#include <string_view>

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

// --- This process as a client; the library's own calls, made where the pool's lock is held.

// From now on the manager knows that this process holds the segment, so that its name goes at once
// if the process is killed. Connects first if need be, starts a private manager where there is
// none, and after its end connects to the next one and tells it all. Within two seconds it is done,
// or throws Error naming the path tried, errno, and what the manager wrote to standard error.
// Does nothing with SHOAL_MANAGER=off.
void hold(const std::string& name);
// The same for a segment that others made, if a manager is there. What comes of it is not the
// caller's affair: whoever made the segment has seen to it that it is watched.
void hold_if_reachable(const std::string& name) noexcept;
// The process holds it no more. A manager that cannot be told finds out by itself.
void release(const std::string& name) noexcept;

// Around fork, as Segment's: the child gets a connection of its own, opened before, so that its
// death is noticed, too.
void prepare_fork() noexcept;
void after_fork_in_parent() noexcept;
void after_fork_in_child() noexcept;

}  // namespace shoal::manager
