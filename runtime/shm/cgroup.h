#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the memory cgroups of this process, version 1 or 2, still let it have: in a container, the
// container's limit. Shared memory counts against them as any other, and the kernel answers an
// excess not with an error but by killing a process.
namespace shoal {

// One limit and how near it is, in bytes.
struct CgroupMemory {
  std::uint64_t limit = 0;
  // What stays when the kernel takes back all it can: page cache counts as free.
  std::uint64_t used = 0;
  // The limit once more with what the cgroup may move to swap.
  std::uint64_t limit_with_swap = 0;
  std::string file{};  // where the limit stands: "/sys/fs/cgroup/memory.max"

  [[nodiscard]] std::uint64_t free() const {
    return limit_with_swap > used ? limit_with_swap - used : 0;
  }
};

// A directory whose limits apply to this process.
struct CgroupDirectory {
  std::string path{};  // as this process sees it: "/sys/fs/cgroup/memory/jobs"
  int version = 2;
  bool own = true;  // not one that the process' own lies in
};

// The process' own cgroup of a controller, "memory" or "cpu", and those it lies in, innermost
// first, as far up as they are mounted here. `root` stands before every path that is read, /proc
// and /sys alike; tests put a directory of their own there.
[[nodiscard]] std::vector<CgroupDirectory> find_cgroups(std::string_view controller,
                                                        const std::string& root = {});

// The tightest limit over all of them; empty if none is set or known. Files that are absent or make
// no sense count as no limit.
//
// Page cache is looked up only where less than `enough` is free without it, for that is slow; until
// then it counts as used.
[[nodiscard]] std::optional<CgroupMemory> read_cgroup_memory(const std::string& root = {},
                                                             std::uint64_t enough = UINT64_MAX);

}  // namespace shoal
