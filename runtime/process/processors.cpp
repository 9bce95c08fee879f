#include "shoal/runtime/process/processors.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/cgroup.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

std::vector<int> find_affinity() {
  // The kernel refuses a set that is smaller than its own.
  for (int most = 1024; most <= (1 << 20); most *= 4) {
    cpu_set_t* set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const std::size_t nbytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(nbytes, set);
    std::vector<int> ids;
    const bool known = ::sched_getaffinity(0, nbytes, set) == 0;
    const bool too_small = !known && errno == EINVAL;
    for (int id = 0; known && id < most; ++id)
      if (CPU_ISSET_S(id, nbytes, set)) ids.push_back(id);
    CPU_FREE(set);
    if (!ids.empty()) return ids;
    if (!too_small) break;
  }
  return {0};
}

// Of the processors' time that a cgroup allows, in whole processors, rounded up.
std::optional<std::uint64_t> read_quota(const std::string& root, const CgroupDirectory& level) {
  const std::string directory = root + level.path;
  std::optional<std::uint64_t> quota, period;
  if (level.version == 2) {
    // "200000 100000", or "max 100000"
    const std::string text = system_file::read(directory + "/cpu.max").value_or("");
    std::string_view words = text;
    quota = system_file::parse_number(system_file::take_word(words));
    period = system_file::parse_number(words);
  } else {
    // -1, no number: none.
    quota = system_file::read_number(directory + "/cpu.cfs_quota_us");
    period = system_file::read_number(directory + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0 || *quota == 0) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

}  // namespace

Processors find_processors(const std::string& root) {
  Processors found{.ids = find_affinity()};
  std::uint64_t count = found.ids.size();
  for (const CgroupDirectory& level : find_cgroups("cpu", root))
    count = std::min(count, read_quota(root, level).value_or(count));
  found.count = static_cast<int>(count);
  return found;
}

std::vector<int> processors_of(int rank, int threads, const Processors& all) {
  const std::size_t total = all.ids.size();
  const std::size_t share = std::clamp<std::size_t>(static_cast<std::size_t>(threads), 1, total);
  const std::size_t parts = total / share;
  const std::size_t first = static_cast<std::size_t>(rank) % parts * share;
  const auto begin = all.ids.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(share)};
}

}  // namespace shoal
