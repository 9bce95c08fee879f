#include "shoal/runtime/process/fork_safety.h"

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/fork_guard.h"

namespace shoal {
namespace {

// A thread that was joined may still be on its way out of the kernel for a moment.
constexpr double kPatienceMs = 200;

constexpr const char* kRemedy =
    "Launch by spawn or forkserver, or before anything else starts a thread; or set "
    "fork_with_threads, if none of them can have locked what a worker needs";

// Of this process, whose copies have none. Both relaxed: a fork and its look at them are made by
// one thread.
constinit std::atomic<int> own_threads{0};
constinit std::atomic<pid_t> owner{0};

std::size_t count_threads() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), &::closedir);
  if (tasks == nullptr) return 1;  // not to be known; then a fork is as safe as any
  std::size_t count = 0;
  while (const dirent* entry = ::readdir(tasks.get())) count += entry->d_name[0] != '.';
  return count;
}

std::size_t count_others() {
  const bool ours = owner.load(std::memory_order_relaxed) == ::getpid();
  const int own = ours ? own_threads.load(std::memory_order_relaxed) : 0;
  const std::size_t known = static_cast<std::size_t>(own) + 1;
  const std::size_t all = count_threads();
  return all > known ? all - known : 0;
}

}  // namespace

void count_own_thread() noexcept {
  const pid_t self = ::getpid();
  if (owner.exchange(self, std::memory_order_relaxed) != self)
    own_threads.store(0, std::memory_order_relaxed);
  own_threads.fetch_add(1, std::memory_order_relaxed);
}

void check_may_fork(bool with_threads) {
  const char* in_use = ForkGuard::in_use();
  if (in_use != nullptr) {
    throw Error({.kind = ErrorKind::unsupported,
                 .call = "fork",
                 .subject = in_use,
                 .reason = "this process uses it, and it does not survive a fork",
                 .remedy = "Launch by spawn or forkserver"});
  }
  if (with_threads) return;
  const Deadline deadline = in_ms(kPatienceMs);
  std::size_t others = 0;
  while ((others = count_others()) > 0 && !deadline.expired()) ::poll(nullptr, 0, 1);
  if (others == 0) return;
  throw Error({.kind = ErrorKind::unsupported,
               .call = "fork",
               .subject = concat("a process with ", others,
                                 others == 1 ? " other thread" : " other threads"),
               .reason = "what they have locked would stay locked in a worker for ever",
               .remedy = kRemedy});
}

}  // namespace shoal
