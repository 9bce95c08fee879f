#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/cgroup.h"
#include "shoal/runtime/shm/sharing_strategy.h"

// What is left to share: bytes, descriptors, mappings. Where it runs short, an Error that says how
// much was wanted, how much is free, which limit that is and how to raise it.
//
// What is empty is not known or not limited; that is never an error. All calls may come from any
// thread. They look and reserve nothing: who shares at the same moment may be faster.
namespace shoal {

struct DevShmSpace {
  std::uint64_t total_nbytes = 0;
  std::uint64_t free_nbytes = 0;
  std::uint64_t free_names = UINT64_MAX;  // inodes
};

// Of the machine, or of what a container is told to be one.
struct MachineMemory {
  std::uint64_t total = 0;
  std::uint64_t available = 0;  // without swapping, page cache given back
  std::uint64_t swap_free = 0;
  // Under strict overcommit (vm.overcommit_memory=2): what may be promised, and what has been.
  std::optional<std::uint64_t> commit_limit{};
  std::uint64_t committed = 0;
};

struct Descriptors {
  std::uint64_t soft_limit = UINT64_MAX;  // UINT64_MAX: none
  std::uint64_t hard_limit = UINT64_MAX;
  std::optional<std::uint64_t> open{};
};

struct Mappings {
  std::optional<std::uint64_t> limit{};  // vm.max_map_count
  std::optional<std::uint64_t> used{};
  std::optional<std::uint64_t> address_space_limit{};  // `ulimit -v`, bytes
  std::optional<std::uint64_t> address_space_used{};
};

struct Budget {
  std::optional<DevShmSpace> dev_shm{};
  std::optional<CgroupMemory> cgroup{};
  std::optional<MachineMemory> machine{};
  std::optional<std::uint64_t> file_size_limit{};  // `ulimit -f`, which shared memory obeys too
  Descriptors descriptors{};
  Mappings mappings{};

  // For people, a line for each.
  friend std::ostream& operator<<(std::ostream& out, const Budget& budget);
};

// Everything. Takes milliseconds in a process with many mappings, which are counted one by one.
//
// `root` stands before every path that is read, /proc, /sys and /dev/shm; tests put a directory of
// their own there. Limits of the process itself are asked of the kernel.
[[nodiscard]] Budget read_budget(const std::string& root = {});

// Only what limits bytes, in some 100 us. Details that cannot matter while `enough` bytes are free
// are left out (cgroup.h).
[[nodiscard]] Budget read_byte_budget(const std::string& root = {},
                                      std::uint64_t enough = UINT64_MAX);

// To be called before a segment of `nbytes` is made. Checks the bytes, all those limits to which
// the kernel answers late or by killing a process; mappings and descriptors it refuses by itself.
// Small ones pass without another look for a while (budget_credit.h). Throws Error(no_space), or
// Error(limit_reached) for a limit of this process.
void check_budget(std::size_t nbytes, SharingStrategy strategy);

// What there is to say after a call that was to make or map a segment of `nbytes` failed:
// memfd_create, open, fallocate, mmap. Names the limit that is used up, and the error.
[[nodiscard]] Error explain_full(std::string_view call, int errno_value, std::size_t nbytes,
                                 SharingStrategy strategy);

// The same two from a budget that was read before.
[[nodiscard]] std::optional<Error> find_shortage(const Budget& budget, std::size_t nbytes,
                                                 SharingStrategy strategy);
[[nodiscard]] Error explain_full(const Budget& budget, std::string_view call, int errno_value,
                                 std::size_t nbytes, SharingStrategy strategy);

}  // namespace shoal
