#include "shoal/runtime/base/fork_guard.h"

#include <unistd.h>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

// One that is used, and by whom; one is enough to say no. What an ancestor used is overwritten.
struct InUse {
  std::atomic<const char*> what{nullptr};
  std::atomic<int> user{0};
};
constinit InUse first;

}  // namespace

void ForkGuard::use() {
  const int self = ::getpid();
  int user = 0;
  if (user_.compare_exchange_strong(user, self, std::memory_order_relaxed)) {
    // The name is there for whoever sees the process.
    if (first.user.load(std::memory_order_relaxed) != self) {
      first.what.store(what_, std::memory_order_relaxed);
      first.user.store(self, std::memory_order_release);
    }
    return;
  }
  if (user == self) return;
  throw Error({.kind = ErrorKind::unsupported,
               .call = what_,
               .subject = concat("process ", self),
               .reason = concat("process ", user,
                                " had used it before it forked this one, and it "
                                "does not survive a fork"),
               .remedy = "Start workers by spawn or forkserver, or use it only after forking"});
}

const char* ForkGuard::in_use() noexcept {
  return first.user.load(std::memory_order_acquire) == ::getpid()
             ? first.what.load(std::memory_order_relaxed)
             : nullptr;
}

}  // namespace shoal
