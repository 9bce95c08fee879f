#include "shoal/runtime/base/spin.h"

#include <sched.h>

namespace shoal {

int usable_cpus() noexcept {
  static const int count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    // Fails where there are more CPUs than the set has room for.
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : CPU_SETSIZE;
  }();
  return count;
}

}  // namespace shoal
