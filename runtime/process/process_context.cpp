#include "shoal/runtime/process/process_context.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/process/process_context_state.h"
#include "shoal/runtime/process/worker_process.h"
#include "shoal/runtime/shm/orphans.h"

namespace shoal {
namespace {

// The pipe is non-blocking: a helper that the worker left behind may hold its other end open.
std::string read_report(const Fd& pipe) {
  std::string text;
  std::array<char, 4096> part;
  ssize_t got = 0;
  while ((got = ::read(pipe.get(), part.data(), part.size())) > 0)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

void collect_status(WorkerRecord& worker) {
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(worker.pidfd.get()), &info, WEXITED) < 0) {
    if (errno != EINTR)
      throw_errno("waitid", concat("pid ", worker.pid),
                  "Workers cannot be watched while SIGCHLD is ignored or waited for elsewhere");
  }
  if (info.si_code == CLD_EXITED) {
    worker.exit_code = info.si_status;
  } else {
    worker.signal = info.si_status;
  }
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
  return std::ranges::all_of(workers, &WorkerRecord::ended);
}

bool ProcessContext::State::collect(Deadline deadline) {
  std::vector<pollfd> waiting;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    if (workers[rank].ended()) continue;
    waiting.push_back({.fd = workers[rank].pidfd.get(), .events = POLLIN, .revents = 0});
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
    collect_status(worker);
    if (failed_rank >= 0 || worker.exit_code == 0) continue;
    failed_rank = static_cast<int>(ranks[i]);
    failure = read_report(worker.report);
  }
  return true;
}

void ProcessContext::State::signal_all(int signal) const {
  for (const WorkerRecord& worker : workers)
    if (!worker.ended()) signal_process(worker.pidfd, signal);
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
    // Somebody else collects our children; they have been signalled all the same.
    signal_all(SIGKILL);
  }
}

void ProcessContext::State::throw_failure() const {
  const WorkerRecord& worker = workers[static_cast<std::size_t>(failed_rank)];
  if (!failure.empty()) {
    auto [type, message] = FailureReport::decode(failure);
    throw ProcessRaised(failed_rank, worker.pid, std::move(type), std::move(message));
  }
  throw ProcessExited(failed_rank, worker.pid, worker.exit_code.value_or(0),
                      worker.signal.value_or(0));
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
  check(rank >= 0 && rank < size(), ErrorKind::invalid_argument, "ProcessContext::channel", "rank ",
        rank, " of ", size());
  return state_->workers[static_cast<std::size_t>(rank)].channel;
}

bool ProcessContext::join(Deadline deadline) {
  while (state_->failed_rank < 0 && state_->collect(deadline)) {
  }
  if (state_->failed_rank >= 0) {
    state_->terminate(state_->grace_seconds);
    state_->throw_failure();
  }
  return state_->all_ended();
}

void ProcessContext::terminate(double grace_seconds) { state_->terminate(grace_seconds); }

}  // namespace shoal
