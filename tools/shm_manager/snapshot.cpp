#include "shoal/tools/shm_manager/snapshot.h"

#include <pwd.h>

#include <algorithm>
#include <chrono>
#include <map>

namespace shoal::tools {
namespace {

constexpr double kManagerPatienceS = 2;

}  // namespace

Snapshot take_snapshot(const std::string& prefix) {
  Snapshot snapshot{.prefix = prefix};
  // The manager first: what it answers may take a while, and the rest should be fresh.
  snapshot.manager = look_at_manager(in_seconds(kManagerPatienceS));
  snapshot.segments = survey_segments(prefix);
  snapshot.shm = survey_shm(snapshot.segments);
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  snapshot.now_s = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
  return snapshot;
}

void Sum::add(const SegmentReport& segment) {
  ++segments;
  nbytes += segment.nbytes;
  resident_bytes += segment.resident_bytes;
}

void Sums::add(const SegmentReport& segment) {
  all.add(segment);
  (segment.state == SegmentState::live       ? live
   : segment.state == SegmentState::orphaned ? orphaned
                                             : unknown)
      .add(segment);
}

Sums sum_up(const std::vector<SegmentReport>& segments) {
  Sums sums;
  for (const SegmentReport& segment : segments) sums.add(segment);
  return sums;
}

std::vector<CreatorGroup> group_by_creator(const std::vector<SegmentReport>& segments) {
  std::map<std::uint32_t, CreatorGroup> by_pid;
  for (const SegmentReport& segment : segments) {
    CreatorGroup& group = by_pid[segment.creator_pid];
    group.creator_pid = segment.creator_pid;
    group.sums.add(segment);
  }
  std::vector<CreatorGroup> groups;
  groups.reserve(by_pid.size());
  for (const auto& [pid, group] : by_pid) groups.push_back(group);
  std::ranges::stable_sort(groups, std::greater(),
                           [](const CreatorGroup& group) { return group.sums.all.nbytes; });
  return groups;
}

std::vector<std::uint32_t> living_holders(const SegmentReport& segment) {
  std::vector<std::uint32_t> pids;
  for (const SegmentHolder& holder : segment.holders)
    if (holder.alive) pids.push_back(holder.pid);
  return pids;
}

std::uint64_t age_s(const SegmentReport& segment, std::int64_t now_s) {
  // The clock may have been set back.
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_s - segment.created_s));
}

std::string user_name(uid_t uid) {
  const passwd* user = ::getpwuid(uid);
  return user == nullptr ? std::to_string(uid) : user->pw_name;
}

}  // namespace shoal::tools
