#pragma once

#include <string>
#include <vector>

namespace shoal {

// The processors that this process may use.
struct Processors {
  std::vector<int> ids;  // those it may run on (sched_getaffinity), ascending; at least one
  int count = 1;         // as many as it may keep busy: fewer where a cgroup limits its time
};

// `root` stands before the paths of the cgroups' files; tests put a directory of their own there.
[[nodiscard]] Processors find_processors(const std::string& root = {});

// For worker `rank`, with `threads` of them each: the same number for all as far as they last, then
// from the start again.
[[nodiscard]] std::vector<int> processors_of(int rank, int threads, const Processors& all);

}  // namespace shoal
