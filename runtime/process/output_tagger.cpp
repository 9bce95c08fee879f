#include "shoal/runtime/process/output_tagger.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/spawn_program.h"
#include "shoal/runtime/process/worker_process.h"

namespace shoal {
namespace {

// For what a helper that a worker left behind may still hold open.
constexpr double kLastWordsS = 1;

struct Leftovers {
  std::mutex mutex;
  std::vector<Fd> processes;
};

Leftovers& leftovers() {
  static auto* instance = new Leftovers;  // contexts may be statics
  return *instance;
}

// Before there are threads, as SegmentPool::instance. A child must not find it locked by a thread
// that it does not have.
[[maybe_unused]] const int made_at_load =
    ::pthread_atfork([] { leftovers().mutex.lock(); }, [] { leftovers().mutex.unlock(); },
                     [] { leftovers().mutex.unlock(); });

// Collects it, too. True also for one that is no child of ours: its copy in a forked process.
bool has_ended(const Fd& process, Deadline deadline) noexcept {
  try {
    if (!wait_ready(process.get(), POLLIN, deadline)) return false;
  } catch (const Error&) {
    return false;
  }
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(process.get()), &info, WEXITED | WNOHANG);
  return true;
}

}  // namespace

OutputTagger::OutputTagger(int workers) : owner_(::getpid()) {
  check_child_main();
  std::vector<Fd> reading;
  for (int stream = 0; stream < 2 * workers; ++stream) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) throw_errno("pipe2");
    reading.push_back(above_streams(Fd{ends[0]}));
    writing_.push_back(above_streams(Fd{ends[1]}));
  }
  std::vector<const Fd*> kept;
  kept.reserve(reading.size());
  for (const Fd& fd : reading) kept.push_back(&fd);
  process_ = watch_child(spawn_program(output_tagger_arguments(reading), kept, {}));
}

OutputTagger::~OutputTagger() {
  finish(in_seconds(kLastWordsS));
  if (!process_ || owner_ != ::getpid()) return;
  try {
    const std::scoped_lock hold(leftovers().mutex);
    leftovers().processes.push_back(std::move(process_));
  } catch (const std::exception&) {
    // No memory: it stays uncollected until this process ends.
  }
}

void OutputTagger::finish(Deadline deadline) noexcept {
  close_writing();
  if (process_ && owner_ == ::getpid() && has_ended(process_, deadline)) process_.reset();
}

void OutputTagger::collect_leftovers() noexcept {
  const std::scoped_lock hold(leftovers().mutex);
  std::erase_if(leftovers().processes,
                [](const Fd& process) { return has_ended(process, in_ms(0)); });
}

}  // namespace shoal
