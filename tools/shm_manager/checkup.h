#pragma once

#include <sys/types.h>

#include <string>

#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/segment_survey.h"
#include "shoal/tools/shm_manager/finding.h"
#include "shoal/tools/shm_manager/manager_view.h"

// What doctor looks at, each with at least one finding. They change nothing. `root` stands before
// every path that is read, as for read_budget; tests put a directory of their own there.
namespace shoal::tools {

// /dev/shm: what is mounted there, how large it is beside the machine's memory, what is left.
[[nodiscard]] Findings check_shm(const Budget& budget, const std::string& root = {});

// Whether the kernel would kill before /dev/shm is full.
[[nodiscard]] Findings check_cgroup(const Budget& budget);

// Descriptors and mappings: the limits, and how near to them the holders of segments are.
[[nodiscard]] Findings check_descriptors(const Budget& budget);
[[nodiscard]] Findings check_mappings(const Budget& budget,
                                      const std::vector<SegmentReport>& segments,
                                      const std::string& root = {});

// Whether logind removes a user's segments when the user logs out.
struct Person {
  uid_t uid = 0;
  std::string name{};
};
[[nodiscard]] Findings check_logind(const Person& person, const std::string& root = {});

// Orphaned segments, and files that are no segments one can judge: among `segments`, or `others`
// that have the prefix, too. Segments among the latter have a longer prefix and are left aside.
[[nodiscard]] Findings check_leftovers(const std::vector<SegmentReport>& segments,
                                       const std::vector<SegmentReport>& others);

// The manager: whether one is used, where, whether it answers, and whether others could stand in
// for it.
[[nodiscard]] Findings check_manager(const ManagerView& view, uid_t uid);

}  // namespace shoal::tools
