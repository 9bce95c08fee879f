#include "shoal/runtime/process/fork_server.h"

#include <fcntl.h>
#include <poll.h>
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

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const ForkServer& made_at_load = ForkServer::instance();

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
  const Fd self = open_pidfd(::getpid());
  const pid_t pid = spawn_program(fork_server_arguments(theirs, self), {&theirs, &self}, {});
  pidfd_ = watch_child(pid);
  control_.emplace(std::move(ours));
  owner_ = ::getpid();
}

void ForkServer::forget() noexcept {
  control_.reset();
  if (!pidfd_) return;
  // It ends when its channel has closed; if it has not yet, the host's end collects it.
  siginfo_t info{};
  if (owner_ == ::getpid())
    ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  pidfd_.reset();
}

ForkedWorker ForkServer::fork(ForkRequest request, Deadline deadline) {
  const std::scoped_lock hold(mutex_);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) throw_errno("pipe2");
  ForkedWorker worker;
  worker.status.reset(ends[0]);
  request.status = Fd{ends[1]};
  const Message message = std::move(request).encode();
  const auto in_time = [](bool done) {
    check(done, ErrorKind::timed_out, "fork server", "it does not answer");
  };
  std::optional<Message> answer;
  for (bool again = false;; again = true) {
    start_locked();
    try {
      in_time(control_->send(message, deadline));
      answer = control_->receive(deadline);
      if (answer) break;
      in_time(control_->peer_closed());
      throw Error({.kind = ErrorKind::peer_gone,
                   .call = "fork server",
                   .reason = "it ended while it started a worker"});
    } catch (const Error& error) {
      forget();
      if (error.kind() != ErrorKind::peer_gone || again) throw;
    }
  }
  check(answer->tag.empty(), ErrorKind::system, "fork server", answer->tag);
  check(answer->fds.size() == 1, ErrorKind::malformed, "fork server",
        "an answer without a process");
  worker.pid = from_bytes<std::int32_t>(answer->bytes);
  worker.pidfd = std::move(answer->fds[0]);
  return worker;
}

}  // namespace shoal
