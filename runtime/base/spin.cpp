#include "shoal/runtime/base/spin.h"

#include <sched.h>

#include <atomic>

namespace shoal {

int usable_cpus() noexcept {
  // Threads that ask at the same time get the same answer.
  static std::atomic<int> known{0};
  int count = known.load(std::memory_order_relaxed);
  if (count == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    // Fails where there are more CPUs than the set has room for.
    count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : CPU_SETSIZE;
    known.store(count, std::memory_order_relaxed);
  }
  return count;
}

}  // namespace shoal
