#include "shoal/runtime/process/parent_watch.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/fork_safety.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment_pool.h"

namespace shoal {
namespace {

constexpr int kExitWithLauncher = 1;
constexpr int kPatienceMs = 1000;

void watch(const Fd& launcher, int rank) {
  if (!wait_ready(launcher.get(), POLLIN, kForever)) return;
  const std::string text =
      concat("shoal: rank ", rank, " ends, since the process that launched it has ended\n");
  // Nobody may be left to read it: SIGPIPE is blocked in this thread, and a full pipe must not keep
  // it here.
  if (wait_ready(STDERR_FILENO, POLLOUT, in_ms(0))) [[maybe_unused]]
    const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  // Whatever holds up what follows, one of the program's threads for instance, that is the end.
  std::thread([] {
    ::poll(nullptr, 0, kPatienceMs);
    ::_exit(kExitWithLauncher);
  }).detach();
  // Last, since the program's threads still run. Also for what the launcher held by name and this
  // process had not yet taken over.
  SegmentPool::instance().leave_named_segments();
  try {
    reap_orphans();
  } catch (const std::exception&) {
    // The next process to come reaps.
  }
  ::_exit(kExitWithLauncher);
}

}  // namespace

void end_with(Fd launcher, int rank) {
  // Signals are for the program's own threads, so this one starts with all of them blocked.
  count_own_thread();
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(
      [rank](const Fd& watched) {
        try {
          watch(watched, rank);
        } catch (const std::exception&) {
          // A broken watch must not end a working process; its channel still tells it of the end.
        }
      },
      std::move(launcher))
      .detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace shoal
