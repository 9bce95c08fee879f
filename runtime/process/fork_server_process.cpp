#include "shoal/runtime/process/fork_server_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/wire.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/ipc/message_bytes.h"
#include "shoal/runtime/process/fork_safety.h"
#include "shoal/runtime/process/spawn_program.h"
#include "shoal/runtime/shm/descriptor_limit.h"

namespace shoal {
namespace {

// A worker that runs, and where its end is told.
struct Child {
  Fd pidfd;
  Fd status;
};

void collect(Child& child) {
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED) < 0)
    if (errno != EINTR) return;  // the pipe's end without a word says that nobody knows
  const WorkerStatus status{.code = info.si_code, .status = info.si_status};
  [[maybe_unused]] const auto written = ::write(child.status.get(), &status, sizeof status);
}

void redirect(const Fd& to, int stream) {
  if (to && ::dup2(to.get(), stream) < 0) throw_errno("dup2");
}

class Server {
 public:
  Server(Fd control, Fd launcher) : control_(std::move(control)), launcher_(std::move(launcher)) {
    // What is sent to the whole group is for the launcher and the workers to act on. Blocked, not
    // ignored: a worker gets what comes before it has settled in.
    sigset_t of_group;
    ::sigemptyset(&of_group);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&of_group, signal);
    ::sigprocmask(SIG_BLOCK, &of_group, &inherited_mask_);
    // Ignored, nobody could be waited for.
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, &inherited_sigchld_);
    (void)raise_descriptor_limit();
  }

  void run() {
    for (;;) {
      std::vector<pollfd> waiting = {{.fd = launcher_.get(), .events = POLLIN, .revents = 0},
                                     {.fd = control_.fd(), .events = POLLIN, .revents = 0}};
      for (const Child& child : children_)
        waiting.push_back({.fd = child.pidfd.get(), .events = POLLIN, .revents = 0});
      if (::poll(waiting.data(), waiting.size(), -1) < 0) {
        if (errno == EINTR) continue;
        throw_errno("poll", "workers");
      }
      // Its workers see that themselves.
      if (waiting[0].revents != 0) return;
      for (std::size_t i = children_.size(); i-- > 0;) {
        if (waiting[2 + i].revents == 0) continue;
        collect(children_[i]);
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (waiting[1].revents != 0 && !answer()) return;
    }
  }

 private:
  // False when the launcher has closed its end.
  [[nodiscard]] bool answer() {
    Message answer;
    ForkAnswer about;
    try {
      auto message = control_.receive(in_ms(0));
      if (!message) return !control_.peer_closed();
      ForkRequest request = ForkRequest::decode(std::move(*message));
      about.number = request.number;
      check_may_fork(false);
      const pid_t pid = ::fork();
      if (pid < 0) throw_errno("fork", concat("rank ", request.settings.rank));
      if (pid == 0) become_worker(std::move(request));
      Fd pidfd = watch_child(pid);
      about.pid = pid;
      answer.fds.push_back(pidfd.duplicate());
      children_.push_back({std::move(pidfd), std::move(request.status)});
    } catch (const std::exception& error) {
      answer = {.tag = error.what()};
    }
    answer.bytes = to_bytes(about);
    try {
      control_.send(answer);
      return true;
    } catch (const Error&) {
      return false;  // the launcher has ended meanwhile
    }
  }

  [[noreturn]] void become_worker(ForkRequest request) noexcept {
    const auto settle = [&] {
      // What is the server's own: with it open here, nobody would see it close.
      { const Channel closed = std::move(control_); }
      launcher_.reset();
      children_.clear();
      request.status.reset();
      redirect(request.output, STDOUT_FILENO);
      redirect(request.errors, STDERR_FILENO);
      request.output.reset();
      request.errors.reset();
      ::sigaction(SIGCHLD, &inherited_sigchld_, nullptr);
      ::sigprocmask(SIG_SETMASK, &inherited_mask_, nullptr);
    };
    const auto run = [&](Worker& worker) { return find_entry(request.entry)(worker); };
    run_forked_worker(settle, run, request.settings, std::move(request.ends));
  }

  // A worker has them again.
  sigset_t inherited_mask_{};
  struct sigaction inherited_sigchld_ {};
  Channel control_;
  Fd launcher_;
  std::vector<Child> children_;
};

}  // namespace

Message ForkRequest::encode() && {
  WireWriter out;
  out.put(number);
  out.put_text(settings.numbers());
  out.put(static_cast<std::uint32_t>(settings.environment.size()));
  for (const auto& [name, value] : settings.environment) {
    out.put_text(name);
    out.put_text(value);
  }
  Message message{.tag = std::move(entry), .bytes = out.take()};
  for (Fd* fd : ends.all()) message.fds.push_back(std::move(*fd));
  message.fds.push_back(std::move(status));
  if (!settings.tag_output) return message;
  message.fds.push_back(std::move(output));
  message.fds.push_back(std::move(errors));
  return message;
}

ForkRequest ForkRequest::decode(Message message) {
  WireReader in(message.bytes);
  ForkRequest request{.number = in.get<std::uint64_t>(), .entry = std::move(message.tag)};
  bool whole = WorkerSettings::parse_numbers(in.get_text(), request.settings);
  for (auto count = in.get<std::uint32_t>(); count > 0; --count) {
    std::string name = in.get_text();
    request.settings.environment[std::move(name)] = in.get_text();
  }
  in.expect_end();
  std::vector<Fd*> wanted;
  for (Fd* fd : request.ends.all()) wanted.push_back(fd);
  wanted.push_back(&request.status);
  if (request.settings.tag_output) {
    wanted.push_back(&request.output);
    wanted.push_back(&request.errors);
  }
  whole = whole && message.fds.size() == wanted.size();
  check(whole, ErrorKind::malformed, "fork server", "a request that no launcher makes");
  for (std::size_t i = 0; i < wanted.size(); ++i) *wanted[i] = std::move(message.fds[i]);
  return request;
}

int serve_forks(Fd control, Fd launcher) {
  Server(std::move(control), std::move(launcher)).run();
  return 0;
}

}  // namespace shoal
