#include <algorithm>
#include <set>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/system_file.h"
#include "shoal/tools/shm_manager/checkup.h"
#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {
namespace {

constexpr std::uint64_t kFewDescriptors = 4096;
constexpr std::uint64_t kFewMappings = 65530;  // the kernel's default

std::string number_or_none(std::uint64_t limit) {
  return limit == UINT64_MAX ? "none" : std::to_string(limit);
}

struct Busiest {
  std::uint32_t pid = 0;
  std::uint64_t mappings = 0;
};

// Of those who hold segments; pids of other namespaces and other users' processes do not count.
Busiest busiest_holder(const std::vector<SegmentReport>& segments, const std::string& root) {
  std::set<std::uint32_t> pids;
  for (const SegmentReport& segment : segments)
    for (const std::uint32_t pid : living_holders(segment)) pids.insert(pid);
  Busiest busiest;
  for (const std::uint32_t pid : pids) {
    const auto count = system_file::count_lines(concat(root, "/proc/", pid, "/maps"));
    if (count && *count > busiest.mappings) busiest = {pid, *count};
  }
  return busiest;
}

}  // namespace

Findings check_descriptors(const Budget& budget) {
  const Descriptors& limits = budget.descriptors;
  const std::string text =
      concat("Descriptors a process: soft limit ", number_or_none(limits.soft_limit),
             ", hard limit ", number_or_none(limits.hard_limit));
  if (limits.hard_limit < kFewDescriptors)
    return {{Level::warning, "descriptors", text,
             "Tensors by file_descriptor take one each while in use. Raise the hard limit: "
             "LimitNOFILE= of the unit, or nofile in /etc/security/limits.conf"}};
  // Shoal raises the soft limit to the hard one by itself, unless it is told not to.
  return {{Level::ok, "descriptors", text, {}}};
}

Findings check_mappings(const Budget& budget, const std::vector<SegmentReport>& segments,
                        const std::string& root) {
  if (!budget.mappings.limit)
    return {{Level::note, "mappings", "vm.max_map_count cannot be read", {}}};
  const std::uint64_t limit = *budget.mappings.limit;
  const Busiest busiest = busiest_holder(segments, root);
  std::string text = concat("Mappings a process: ", limit, " (vm.max_map_count)");
  if (busiest.pid != 0)
    text += concat("; of those who hold segments process ", busiest.pid, " has the most, ",
                   busiest.mappings);
  // Four fifths: the rest goes at once when many segments come.
  const bool near = busiest.mappings > limit / 5 * 4;
  if (near || limit < kFewMappings)
    return {{near ? Level::warning : Level::note, "mappings", text,
             concat("sysctl -w vm.max_map_count=", std::max<std::uint64_t>(262'144, 2 * limit),
                    ", for good in /etc/sysctl.d")}};
  return {{Level::ok, "mappings", text, {}}};
}

}  // namespace shoal::tools
