#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/budget_credit.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

// The kernel ends a process that makes a file too large, so this is asked each time.
bool fits_file_size(std::size_t nbytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || nbytes <= limit.rlim_cur;
}

// What all limits leave that the kernel answers to by killing; none if none is known. (Not
// /dev/shm's size: a call fails there at once.)
std::uint64_t find_room(const Budget& budget) {
  using system_file::add;
  using system_file::subtract;
  if (!budget.cgroup && !budget.machine) return 0;
  std::uint64_t room = UINT64_MAX;
  if (budget.cgroup) room = std::min(room, budget.cgroup->free());
  if (const auto& machine = budget.machine) {
    room = std::min(room, add(machine->available, machine->swap_free));
    if (machine->commit_limit)
      room = std::min(room, subtract(*machine->commit_limit, machine->committed));
  }
  return room;
}

constinit BudgetCredit credit;

}  // namespace

void check_budget(std::size_t nbytes, SharingStrategy strategy) {
  const auto now = std::chrono::steady_clock::now();
  if (fits_file_size(nbytes) && credit.take(nbytes, now)) return;
  const Budget budget = read_byte_budget({}, nbytes);
  if (const auto error = find_shortage(budget, nbytes, strategy)) throw Error(*error);
  credit.grant(system_file::subtract(find_room(budget), nbytes), now);
}

}  // namespace shoal
