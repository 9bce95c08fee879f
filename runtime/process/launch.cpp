#include "shoal/runtime/process/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/process/process_context_state.h"
#include "shoal/runtime/process/worker_process.h"
#include "shoal/runtime/shm/segment_pool.h"

namespace shoal {
namespace {

constexpr std::array kAllMethods{StartMethod::spawn, StartMethod::fork};

std::pair<Fd, Fd> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) throw_errno("pipe2");
  return {Fd{ends[0]}, Fd{ends[1]}};
}

pid_t spawn_program(std::vector<std::string> arguments, const WorkerEnds& ends) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Onto itself: that clears close-on-exec, in the new process alone.
  for (const Fd* fd : {&ends.channel, &ends.report, &ends.launcher})
    ::posix_spawn_file_actions_adddup2(&actions, fd->get(), fd->get());
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw_errno(failed, "posix_spawn", "/proc/self/exe");
  return pid;
}

}  // namespace

std::string_view to_string(StartMethod method) {
  return method == StartMethod::spawn ? "spawn" : "fork";
}

StartMethod parse_start_method(std::string_view name) {
  for (const StartMethod method : kAllMethods)
    if (name == to_string(method)) return method;
  throw Error({.kind = ErrorKind::invalid_argument,
               .call = "start method",
               .subject = concat('\'', name, '\''),
               .reason = "unknown",
               .remedy = "Choose spawn or fork"});
}

std::span<const StartMethod> get_all_start_methods() { return kAllMethods; }

// Builds a ProcessContext worker by worker; if it fails midway, the context ends what it has.
class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), context_(std::make_unique<ProcessContext::State>()) {
    check(options.nprocs >= 1, ErrorKind::invalid_argument, "launch", options.nprocs,
          " processes; at least 1 is needed");
    state().grace_seconds = options.grace_seconds;
    self_ = open_pidfd(::getpid());
  }

  // `start(rank, ends)` makes the process and returns its id.
  template <class Start>
  void add(int rank, const Start& start) {
    auto [ours, theirs] = make_socket_pair();
    auto [reading, writing] = make_pipe();
    WorkerEnds ends{
        .channel = std::move(theirs), .report = std::move(writing), .launcher = self_.duplicate()};
    std::fflush(nullptr);  // or a forked worker would print what is buffered here a second time
    // In the list before it is started, so that a forked worker finds and closes this end too.
    auto& workers = state().workers;
    workers.push_back({.pid = -1,
                       .pidfd = {},
                       .report = std::move(reading),
                       .channel = Channel(std::move(ours)),
                       .exit_code = {},
                       .signal = {}});
    try {
      const pid_t pid = start(rank, ends);
      workers.back().pidfd = watch(pid);
      workers.back().pid = pid;
    } catch (...) {
      workers.pop_back();
      throw;
    }
  }

  [[nodiscard]] pid_t fork_worker(const std::function<int(Worker&)>& entry, int rank,
                                  WorkerEnds& ends) const {
    LiveContexts& contexts = live_contexts();
    std::unique_lock hold(contexts.mutex);
    const pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork", concat("rank ", rank));
    if (pid > 0) return pid;
    for (const auto* state : contexts.states)
      for (const WorkerRecord& worker : state->workers)
        if (worker.channel.fd() >= 0) ::close(worker.channel.fd());
    contexts.states.clear();
    hold.unlock();
    const int code = run_worker(entry, rank, options_.nprocs, std::move(ends));
    std::fflush(nullptr);
    SegmentPool::instance().leave_named_segments();
    ::_exit(code);
  }

  void send_arguments(const std::function<Message(int rank)>& args) {
    for (int rank = 0; rank < options_.nprocs; ++rank) {
      try {
        const bool sent =
            context_.channel(rank).send(args(rank), in_seconds(options_.start_timeout_seconds));
        check(sent, ErrorKind::timed_out, "launch", "rank ", rank,
              " did not accept its arguments in ", options_.start_timeout_seconds, " s");
      } catch (const Error& error) {
        // It died before it could listen; join says how, and that is the better message.
        if (error.kind() != ErrorKind::peer_gone) throw;
      }
    }
  }

  [[nodiscard]] ProcessContext take() { return std::move(context_); }

 private:
  // A process that cannot be watched is not kept.
  static Fd watch(pid_t pid) {
    try {
      return open_pidfd(pid);
    } catch (const Error&) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      throw;
    }
  }

  [[nodiscard]] ProcessContext::State& state() const { return *context_.state_; }

  const LaunchOptions& options_;
  ProcessContext context_;
  Fd self_;
};

ProcessContext launch(Entry entry, const std::function<Message(int rank)>& args,
                      const LaunchOptions& options) {
  const std::string name = entry_name(entry);
  const bool spawned = options.start_method == StartMethod::spawn;
  if (spawned && !child_main_was_called()) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "launch",
                 .reason = "a spawned worker runs this program's main again, which would not know "
                           "that it is a worker",
                 .remedy = "Make shoal::child_main(argc, argv) the first line of main"});
  }
  Launcher launcher(options);
  for (int rank = 0; rank < options.nprocs; ++rank) {
    launcher.add(rank, [&](int r, WorkerEnds& ends) {
      if (spawned) return spawn_program(worker_arguments(name, r, options.nprocs, ends), ends);
      return launcher.fork_worker(entry, r, ends);
    });
  }
  launcher.send_arguments(args);
  return launcher.take();
}

ProcessContext launch(Entry entry, const Message& args, const LaunchOptions& options) {
  return launch(
      entry,
      [&args](int) {
        Message copy{.tag = args.tag,
                     .bytes = args.bytes,
                     .tensors = args.tensors,
                     .fds = {},
                     .queues = args.queues};
        for (const Fd& fd : args.fds) copy.fds.push_back(fd.duplicate());
        return copy;
      },
      options);
}

ProcessContext launch(Entry entry, const LaunchOptions& options) {
  return launch(entry, Message{}, options);
}

ProcessContext launch_forked(const std::function<int(Worker&)>& entry,
                             const LaunchOptions& options) {
  Launcher launcher(options);
  for (int rank = 0; rank < options.nprocs; ++rank) {
    launcher.add(rank,
                 [&](int r, WorkerEnds& ends) { return launcher.fork_worker(entry, r, ends); });
  }
  launcher.send_arguments([](int) { return Message{}; });
  return launcher.take();
}

}  // namespace shoal
