#include "shoal/runtime/process/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/process/fork_safety.h"
#include "shoal/runtime/process/fork_server.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/process/processors.h"
#include "shoal/runtime/process/spawn_program.h"

namespace shoal {
namespace {

std::pair<Fd, Fd> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) throw_errno("pipe2");
  return {Fd{ends[0]}, Fd{ends[1]}};
}

void redirect(const Fd& to, int stream) {
  if (::dup2(to.get(), stream) < 0) throw_errno("dup2");
}

// In a forked worker: what its launcher keeps of this and other workers is not its own.
void close_launchers_ends(LiveContexts& contexts) {
  for (auto* state : contexts.states) {
    for (WorkerRecord& worker : state->workers) {
      for (Channel* channel : {&worker.channel, &worker.result})
        const Channel closed = std::move(*channel);
      for (Fd* fd : {&worker.pidfd, &worker.status, &worker.report}) fd->reset();
    }
    if (state->tagger) state->tagger->close_writing();
  }
  contexts.states.clear();
  ForkServer::instance().drop_copy();
}

}  // namespace

Launcher::Launcher(const LaunchOptions& options)
    : options_(options),
      threads_(options.threads_per_worker),
      self_(open_pidfd(::getpid())),
      context_(std::make_unique<ProcessContext::State>()) {
  check(options.nprocs >= 1, ErrorKind::invalid_argument, "launch", options.nprocs,
        " processes; at least 1 is needed");
  check(threads_ >= 0, ErrorKind::invalid_argument, "launch", threads_, " threads for each worker");
  check_may_launch();
  OutputTagger::collect_leftovers();
  if (threads_ == 0) threads_ = std::max(1, find_processors().count / options.nprocs);
  state().linger_seconds = options.linger_seconds;
  state().grace_seconds = options.grace_seconds;
  state().workers.reserve(static_cast<std::size_t>(options.nprocs));
  if (options.tag_output) state().tagger = std::make_unique<OutputTagger>(options.nprocs);
}

template <class Run>
void Launcher::add(const Run& run) {
  auto& workers = state().workers;
  const int rank = static_cast<int>(workers.size());
  auto [our_channel, their_channel] = make_socket_pair();
  auto [our_result, their_result] = make_socket_pair();
  auto [reading, writing] = make_pipe();
  {
    // Another thread may be forking, whose child closes what it finds here.
    const std::scoped_lock hold(live_contexts().mutex);
    workers.push_back({.report = std::move(reading),
                       .channel = Channel(std::move(our_channel)),
                       .result = Channel(std::move(our_result))});
  }
  try {
    run(WorkerSettings::make(options_, rank, threads_),
        WorkerEnds{.channel = above_streams(std::move(their_channel)),
                   .report = above_streams(std::move(writing)),
                   .result = above_streams(std::move(their_result)),
                   .launcher = above_streams(self_.duplicate())},
        workers.back());
  } catch (...) {
    const std::scoped_lock hold(live_contexts().mutex);
    workers.pop_back();
    throw;
  }
}

void Launcher::spawn(const std::string& entry) {
  add([&](const WorkerSettings& settings, WorkerEnds ends, WorkerRecord& record) {
    static const Fd none;
    const auto* tagger = state().tagger.get();
    const pid_t pid = spawn_program(
        worker_arguments(entry, settings, ends),
        {&ends.channel, &ends.report, &ends.result, &ends.launcher}, settings.environment,
        {{tagger ? &tagger->output(settings.rank) : &none, STDOUT_FILENO},
         {tagger ? &tagger->errors(settings.rank) : &none, STDERR_FILENO}});
    record.pidfd = watch_child(pid);
    record.pid = pid;
  });
}

void Launcher::fork(const std::function<int(Worker&)>& entry) {
  check_may_fork(options_.fork_with_threads);
  add([&](const WorkerSettings& settings, WorkerEnds ends, WorkerRecord& record) {
    flush_output();  // or the worker would print what is buffered here a second time
    LiveContexts& contexts = live_contexts();
    std::unique_lock hold(contexts.mutex);
    const pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork", concat("rank ", settings.rank));
    if (pid == 0) {
      const auto settle = [&] {
        if (const auto& tagger = state().tagger) {
          redirect(tagger->output(settings.rank), STDOUT_FILENO);
          redirect(tagger->errors(settings.rank), STDERR_FILENO);
        }
        close_launchers_ends(contexts);
        self_.reset();
        hold.unlock();
      };
      run_forked_worker(settle, entry, settings, std::move(ends));
    }
    hold.unlock();
    record.pidfd = watch_child(pid);
    record.pid = pid;
  });
}

void Launcher::fork_elsewhere(const std::string& entry) {
  const auto start = [&](const WorkerSettings& settings, WorkerEnds ends, WorkerRecord& record) {
    ForkRequest request{.entry = entry, .settings = settings, .ends = std::move(ends)};
    if (const auto& tagger = state().tagger) {
      request.output = tagger->output(settings.rank).duplicate();
      request.errors = tagger->errors(settings.rank).duplicate();
    }
    ForkedWorker started =
        ForkServer::instance().fork(std::move(request), in_seconds(options_.start_timeout_seconds));
    record.pid = started.pid;
    record.pidfd = std::move(started.pidfd);
    record.status = std::move(started.status);
  };
  try {
    add(start);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_gone) throw;
    // The server has died. Once more, with new ends: who has the old ones sees them close.
    add(start);
  }
}

void Launcher::send_arguments(const std::function<Message(int rank)>& args) {
  if (state().tagger) state().tagger->close_writing();
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

ProcessContext Launcher::take() { return std::move(context_); }

}  // namespace shoal
