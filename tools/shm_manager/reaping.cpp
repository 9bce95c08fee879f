#include "shoal/tools/shm_manager/reaping.h"

#include <unistd.h>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment_survey.h"
#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {
namespace {

bool is_foreign(const SegmentReport& segment) {
  return ::geteuid() != 0 && segment.owner != ::geteuid();
}

std::string belongs_to(const SegmentReport& segment) {
  return "belongs to " + user_name(segment.owner);
}

void remove(const SegmentReport& segment, Reaped& reaped) {
  const ReapOutcome outcome = reap_segment(segment.name);
  switch (outcome) {
    case ReapOutcome::live:
      reaped.fate = Fate::live;  // somebody came to it just now
      return;
    case ReapOutcome::gone:
      reaped.fate = Fate::gone;
      return;
    case ReapOutcome::removed:
      reaped.fate = Fate::removed;
      return;
    case ReapOutcome::foreign:
    case ReapOutcome::unknown:
    case ReapOutcome::failed:
      reaped.fate = Fate::failed;
      reaped.reason = is_foreign(segment) ? belongs_to(segment) : std::string(to_string(outcome));
      return;
  }
}

Reaped reap(const SegmentReport& segment, bool dry_run) {
  Reaped reaped{.name = segment.name,
                .reason = segment.reason,
                .nbytes = segment.nbytes,
                .resident_bytes = segment.resident_bytes,
                .creator_pid = segment.creator_pid};
  switch (segment.state) {
    case SegmentState::live:
      reaped.fate = Fate::live;
      break;
    case SegmentState::unknown:
      reaped.fate = is_foreign(segment) ? Fate::foreign : Fate::unknown;
      if (is_foreign(segment)) reaped.reason = concat(belongs_to(segment), ": ", segment.reason);
      break;
    case SegmentState::orphaned:
      if (!dry_run) {
        remove(segment, reaped);
      } else if (is_foreign(segment)) {
        reaped.fate = Fate::failed;
        reaped.reason = belongs_to(segment);
      } else {
        reaped.fate = Fate::would_remove;
      }
      break;
  }
  return reaped;
}

}  // namespace

std::string_view to_string(Fate fate) {
  switch (fate) {
    case Fate::removed:
      return "removed";
    case Fate::would_remove:
      return "would_remove";
    case Fate::failed:
      return "failed";
    case Fate::live:
      return "live";
    case Fate::foreign:
      return "foreign";
    case Fate::unknown:
      return "unknown";
    case Fate::gone:
      return "gone";
  }
  return "unknown";
}

std::vector<Reaped> reap_segments(const std::string& prefix, bool dry_run) {
  std::vector<Reaped> all;
  for (const SegmentReport& segment : survey_segments(prefix))
    all.push_back(reap(segment, dry_run));
  return all;
}

}  // namespace shoal::tools
