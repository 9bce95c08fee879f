#pragma once

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <utility>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/shm/segment_pool.h"

namespace shoal::test {

inline constexpr double kSoon =
    20;  // seconds: far more than needed, so that only a hang gets there

// Runs `body` in a forked child with one end of a channel; the other end stays here. The destructor
// closes that, and waits for the child to end.
class Peer {
 public:
  explicit Peer(const std::function<void(Channel&)>& body) : Peer(Channel::pair(), body) {}
  ~Peer() {
    if (pid_ < 0) return;
    { const Channel closed = std::move(channel_); }
    (void)wait();
  }
  Peer(Peer&& other) noexcept
      : channel_(std::move(other.channel_)),
        pid_(std::exchange(other.pid_, -1)),
        ended_(other.ended_),
        status_(other.status_) {}
  Peer& operator=(Peer&&) = delete;

  Channel& channel() { return channel_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }

  // The exit code, or minus the signal that ended it: SIGKILL if it does not end by itself.
  int wait() {
    if (!ended_ && !wait_ready(open_pidfd(pid_).get(), POLLIN, in_seconds(kSoon))) kill();
    while (!ended_) {
      if (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) continue;
      ended_ = true;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  Peer(std::pair<Channel, Channel> ends, const std::function<void(Channel&)>& body)
      : channel_(std::move(ends.first)) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    int code = 9;
    try {
      { const Channel closed = std::move(channel_); }
      body(ends.second);
      code = 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "peer: %s\n", error.what());
    }
    SegmentPool::instance().leave_named_segments();
    ::_exit(code);
  }

  Channel channel_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = -1;
};

inline Message receive_soon(Channel& channel) {
  auto message = channel.receive(in_seconds(kSoon));
  if (!message) throw std::runtime_error("no message came");
  return std::move(*message);
}

// Gives way to others until `done()`. False if that is not soon.
template <class Done>
[[nodiscard]] bool soon(Done&& done) {
  const Deadline deadline = in_seconds(kSoon);
  while (!done()) {
    if (deadline.expired()) return false;
    ::sched_yield();
  }
  return true;
}

}  // namespace shoal::test
