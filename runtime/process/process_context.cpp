#include "shoal/runtime/process/process_context.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "shoal/runtime/process/fork_server_process.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/process/process_context_state.h"
#include "shoal/runtime/process/worker_process.h"
#include "shoal/runtime/shm/orphans.h"

namespace shoal {
namespace {

// For what a worker's leftover helper may still hold open.
constexpr double kLastWordsS = 1;

// The pipe is non-blocking: a helper that the worker left behind may hold its other end open.
std::string read_report(const Fd& pipe) {
  std::string text;
  std::array<char, 4096> part;
  ssize_t got = 0;
  while ((got = ::read(pipe.get(), part.data(), part.size())) > 0)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

WorkerEnd end_from(int code, int status) {
  if (code == CLD_EXITED) return {.exit_code = status};
  return {.signal = status, .dumped_core = code == CLD_DUMPED};
}

// Of a child of ours.
WorkerEnd collect_child(const WorkerRecord& worker) {
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(worker.pidfd.get()), &info, WEXITED) < 0) {
    if (errno == EINTR) continue;
    if (errno == ECHILD) return {.unknown = true};
    throw_errno("waitid", concat("pid ", worker.pid));
  }
  return end_from(info.si_code, info.si_status);
}

// Of the fork server's. If that has ended before, nobody knows of the worker's end, so it is made
// to be a certain one.
WorkerEnd read_status(const WorkerRecord& worker) {
  WorkerStatus status;
  // A moment after the worker has ended. (Who else has the pipe's other end may never close it.)
  if (wait_ready(worker.status.get(), POLLIN, in_seconds(kLastWordsS)) &&
      ::read(worker.status.get(), &status, sizeof status) == sizeof status)
    return end_from(status.code, status.status);
  signal_process(worker.pidfd, SIGKILL);
  (void)wait_ready(worker.pidfd.get(), POLLIN, kForever);
  // Ours now, if this process takes in orphans.
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(worker.pidfd.get()), &info, WEXITED | WNOHANG);
  return {.unknown = true};
}

}  // namespace

LiveContexts& live_contexts() {
  static auto* instance = new LiveContexts;  // contexts may be statics
  return *instance;
}

namespace {

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const LiveContexts& made_at_load = live_contexts();

}  // namespace

ProcessContext::State::State() {
  const std::scoped_lock hold(live_contexts().mutex);
  live_contexts().states.insert(this);
}

ProcessContext::State::~State() {
  const std::scoped_lock hold(live_contexts().mutex);
  live_contexts().states.erase(this);
}

bool ProcessContext::State::all_ended() const {
  return std::ranges::all_of(workers, [](const auto& worker) { return worker.end.has_value(); });
}

bool ProcessContext::State::collect(Deadline deadline) {
  std::vector<pollfd> waiting;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const WorkerRecord& worker = workers[rank];
    if (worker.end) continue;
    waiting.push_back({.fd = worker.pidfd.get(), .events = POLLIN, .revents = 0});
    ranks.push_back(rank);
    if (!worker.status) continue;
    waiting.push_back({.fd = worker.status.get(), .events = POLLIN, .revents = 0});
    ranks.push_back(rank);
  }
  if (waiting.empty()) return false;
  for (;;) {
    const int ready = ::poll(waiting.data(), waiting.size(), deadline.poll_timeout());
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) throw_errno("poll", "workers");
    if (ready == 0 && deadline.expired()) return false;
  }
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].revents == 0) continue;
    WorkerRecord& worker = workers[ranks[i]];
    if (worker.end) continue;
    worker.end = worker.status ? read_status(worker) : collect_child(worker);
    if (worker.end->succeeded()) continue;
    worker.failure = read_report(worker.report);
    if (failed_rank < 0) failed_rank = static_cast<int>(ranks[i]);
  }
  return true;
}

void ProcessContext::State::signal_all(int signal) const {
  for (const WorkerRecord& worker : workers)
    if (!worker.end) signal_process(worker.pidfd, signal);
}

void ProcessContext::State::terminate(double grace) noexcept {
  try {
    if (owner != ::getpid() || all_ended()) return;
    signal_all(SIGTERM);
    const Deadline patience = in_seconds(grace);
    while (collect(patience)) {
    }
    signal_all(SIGKILL);
    while (collect(kForever)) {
    }
  } catch (const std::exception&) {
    // They cannot be waited for, without memory; they have been signalled all the same.
    signal_all(SIGKILL);
  }
}

WorkerRecord& ProcessContext::State::at(int rank, const char* call) {
  const auto size = static_cast<int>(workers.size());
  check(rank >= 0 && rank < size, ErrorKind::invalid_argument, call, "rank ", rank, " of ", size);
  return workers[static_cast<std::size_t>(rank)];
}

void ProcessContext::State::throw_failure(int rank) const {
  const WorkerRecord& worker = workers[static_cast<std::size_t>(rank)];
  if (!worker.failure.empty()) {
    throw ProcessRaised(rank, worker.pid, decode_report(worker.failure));
  }
  throw ProcessExited(rank, worker.pid, worker.end.value_or(WorkerEnd{}));
}

ProcessContext::ProcessContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProcessContext::ProcessContext(ProcessContext&& other) noexcept = default;

ProcessContext& ProcessContext::operator=(ProcessContext&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ProcessContext::~ProcessContext() {
  if (state_ == nullptr) return;
  const bool clean = state_->failed_rank < 0 && state_->all_ended();
  state_->terminate(state_->grace_seconds);
  // Killed workers gave nothing back.
  if (clean) return;
  try {
    reap_orphans();
  } catch (const std::exception&) {
    // The next process to come reaps.
  }
}

int ProcessContext::size() const { return static_cast<int>(state_->workers.size()); }

std::vector<pid_t> ProcessContext::pids() const {
  std::vector<pid_t> pids;
  for (const WorkerRecord& worker : state_->workers) pids.push_back(worker.pid);
  return pids;
}

Channel& ProcessContext::channel(int rank) {
  return state_->at(rank, "ProcessContext::channel").channel;
}

bool ProcessContext::join(Deadline deadline) {
  while (state_->failed_rank < 0 && state_->collect(deadline)) {
  }
  if (state_->failed_rank >= 0) {
    const Deadline patience = in_seconds(state_->linger_seconds);
    while (state_->collect(patience)) {
    }
    state_->terminate(state_->grace_seconds);
  }
  const bool all_ended = state_->all_ended();
  if (all_ended && state_->tagger) state_->tagger->finish(in_seconds(kLastWordsS));
  if (state_->failed_rank >= 0) state_->throw_failure(state_->failed_rank);
  return all_ended;
}

std::optional<int> ProcessContext::wait_any(Deadline deadline) {
  for (;;) {
    const auto ended = std::ranges::find_if(
        state_->workers, [](const WorkerRecord& worker) { return worker.end && !worker.told; });
    if (ended != state_->workers.end()) {
      ended->told = true;
      return static_cast<int>(ended - state_->workers.begin());
    }
    if (!state_->collect(deadline)) return std::nullopt;
  }
}

std::optional<WorkerEnd> ProcessContext::end_of(int rank) const {
  return state_->at(rank, "ProcessContext::end_of").end;
}

void ProcessContext::throw_if_failed(int rank) const {
  const WorkerRecord& worker = state_->at(rank, "ProcessContext::throw_if_failed");
  if (worker.end && !worker.end->succeeded()) state_->throw_failure(rank);
}

Message ProcessContext::result(int rank) {
  constexpr const char* kCall = "ProcessContext::result";
  WorkerRecord& worker = state_->at(rank, kCall);
  check(worker.end && worker.end->succeeded(), ErrorKind::invalid_argument, kCall, "rank ", rank,
        worker.end ? " has failed" : " has not ended, as far as join has looked");
  check(!std::exchange(worker.result_taken, true), ErrorKind::invalid_argument, kCall,
        "that of rank ", rank, " was taken before");
  // All of it is there, since its sender has ended; nothing, if the entry ended the process itself.
  return worker.result.receive(in_ms(0)).value_or(Message{});
}

void ProcessContext::terminate(double grace_seconds) { state_->terminate(grace_seconds); }

}  // namespace shoal
