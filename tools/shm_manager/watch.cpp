#include "shoal/tools/shm_manager/watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/fd.h"

namespace shoal::tools {
namespace {

// The wish to end as a descriptor that becomes readable, so that it cannot come just before a wait
// and go unnoticed.
class EndSignals {
 public:
  EndSignals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &signals, &before_);
    file_ = Fd{::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (!file_) throw_errno("signalfd");
  }
  ~EndSignals() {
    // What has come is dealt with; it would end the process once it is let through.
    signalfd_siginfo taken;
    while (::read(file_.get(), &taken, sizeof taken) > 0) {
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // Waits for one of them, or for the reader of standard output to go. False at the deadline.
  [[nodiscard]] bool wait(Deadline deadline) const {
    for (;;) {
      // A closed pipe, or a terminal hung up, shows without being asked for.
      pollfd files[] = {{file_.get(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
      const int ready = ::poll(files, 2, deadline.poll_timeout());
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) throw_errno("poll");
      if (ready == 0 && deadline.expired()) return false;
    }
  }

 private:
  sigset_t before_{};
  Fd file_;
};

}  // namespace

void watch(double seconds, const std::function<bool()>& show) {
  const EndSignals signals;
  for (;;) {
    const Deadline next = in_seconds(seconds);
    if (!show() || signals.wait(next)) return;
  }
}

}  // namespace shoal::tools
