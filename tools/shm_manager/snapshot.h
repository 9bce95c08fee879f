#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/runtime/shm/segment_survey.h"
#include "shoal/tools/shm_manager/manager_view.h"

namespace shoal::tools {

// All that `status` shows, as it was at one moment, or nearly.
struct Snapshot {
  std::int64_t now_s = 0;  // since 1970
  std::string prefix{};
  std::vector<SegmentReport> segments{};
  ShmUse shm{};
  ManagerView manager{};
};

// Throws Error if /dev/shm cannot be looked at. A manager that does not answer takes two seconds.
[[nodiscard]] Snapshot take_snapshot(const std::string& prefix);

// Some segments together.
struct Sum {
  std::size_t segments = 0;
  std::uint64_t nbytes = 0, resident_bytes = 0;

  void add(const SegmentReport& segment);
};

struct Sums {
  Sum all{}, live{}, orphaned{}, unknown{};

  void add(const SegmentReport& segment);
};

[[nodiscard]] Sums sum_up(const std::vector<SegmentReport>& segments);

// What one process has made. Pid 0 stands for all whose creator is not known.
struct CreatorGroup {
  std::uint32_t creator_pid = 0;
  Sums sums{};
};

// By bytes, the largest first.
[[nodiscard]] std::vector<CreatorGroup> group_by_creator(
    const std::vector<SegmentReport>& segments);

// The pids of those who hold it and live; one who holds it twice, as by a message, is there twice.
[[nodiscard]] std::vector<std::uint32_t> living_holders(const SegmentReport& segment);

[[nodiscard]] std::uint64_t age_s(const SegmentReport& segment, std::int64_t now_s);

// The user's name, or the number where there is none.
[[nodiscard]] std::string user_name(uid_t uid);

}  // namespace shoal::tools
