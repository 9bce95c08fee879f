#include "shoal/runtime/process/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/message_bytes.h"
#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/process/spawn_program.h"
#include "shoal/runtime/process/worker_process.h"

namespace shoal {

ForkServer& ForkServer::instance() {
  static auto* server = new ForkServer;  // launches may come while statics are destroyed
  return *server;
}

namespace {

// Before there are threads, as SegmentPool::instance. A child must not find it locked by a thread
// that it does not have.
[[maybe_unused]] const int made_at_load =
    ::pthread_atfork([] { ForkServer::instance().lock(); }, [] { ForkServer::instance().unlock(); },
                     [] { ForkServer::instance().unlock(); });

// For one that has been told to end.
constexpr double kPatienceS = 1;

}  // namespace

void ForkServer::start() {
  const std::scoped_lock hold(mutex_);
  start_locked();
}

void ForkServer::start_locked() {
  const bool runs = control_ && owner_ == ::getpid() && !wait_ready(pidfd_.get(), POLLIN, in_ms(0));
  if (runs) return;
  forget();
  check_child_main();
  auto [ours, theirs] = make_socket_pair();
  theirs = above_streams(std::move(theirs));
  const Fd self = above_streams(open_pidfd(::getpid()));
  const pid_t pid = spawn_program(fork_server_arguments(theirs, self), {&theirs, &self}, {});
  pidfd_ = watch_child(pid);
  control_.emplace(std::move(ours));
  owner_ = ::getpid();
}

void ForkServer::forget() noexcept {
  control_.reset();
  if (!pidfd_) return;
  if (owner_ == ::getpid()) {
    // It ends when its channel has closed, if it has not already.
    try {
      (void)wait_ready(pidfd_.get(), POLLIN, in_seconds(kPatienceS));
    } catch (const Error&) {
      // Then it is collected if it has ended.
    }
    siginfo_t info{};
    ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  }
  pidfd_.reset();
}

void ForkServer::drop_copy() noexcept {
  control_.reset();
  pidfd_.reset();
  owner_ = -1;
}

ForkedWorker ForkServer::fork(ForkRequest request, Deadline deadline) {
  const std::scoped_lock hold(mutex_);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) throw_errno("pipe2");
  ForkedWorker worker;
  worker.status.reset(ends[0]);
  request.status.reset(ends[1]);
  request.number = ++requests_;
  const Message message = std::move(request).encode();
  start_locked();
  const auto in_time = [](bool done) {
    check(done, ErrorKind::timed_out, "fork server", "it does not answer");
  };
  try {
    in_time(control_->send(message, deadline));
    for (;;) {
      std::optional<Message> answer = control_->receive(deadline);
      if (!answer) {
        in_time(control_->peer_closed());
        throw Error({.kind = ErrorKind::peer_gone,
                     .call = "fork server",
                     .reason = "it ended while it started a worker"});
      }
      const auto [number, pid] = from_bytes<ForkAnswer>(answer->bytes);
      // The answer to one that was given up.
      if (number != requests_ && number != 0) continue;
      check(answer->tag.empty(), ErrorKind::system, "fork server", answer->tag);
      check(answer->fds.size() == 1, ErrorKind::malformed, "fork server",
            "an answer without a process");
      worker.pid = static_cast<pid_t>(pid);
      worker.pidfd = std::move(answer->fds[0]);
      return worker;
    }
  } catch (const Error& error) {
    // Others may run that it has started; so it is given up for nothing less.
    if (error.kind() == ErrorKind::peer_gone) forget();
    throw;
  }
}

}  // namespace shoal
