#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/runtime/shm/slot_lock.h"

// What named segments there are, as anybody can see who may open their files: the files tell, and
// the locks on them (slot_lock.h), so it needs no daemon's memory and stands no matter who died.
namespace shoal {

enum class SegmentState {
  live,      // somebody has a lock on it: a process, or a message on its way
  orphaned,  // nobody has, and nobody can come to: safe to remove
  unknown,   // it cannot be judged, so it has to stay
};

[[nodiscard]] std::string_view to_string(SegmentState state);

// A process or a message that has, or had, a slot of a segment.
struct SegmentHolder {
  Slot slot = 0;
  // As the holder itself wrote it: in its own namespace, and for people only. 0 if not known.
  std::uint32_t pid = 0;
  bool alive = false;
};

struct SegmentReport {
  std::string name{};
  SegmentState state = SegmentState::unknown;
  std::string reason{};              // why it is unknown
  uid_t owner = 0;                   // of the file
  std::uint64_t nbytes = 0;          // of the file
  std::uint64_t resident_bytes = 0;  // that take memory at the moment
  std::int64_t created_s = 0;        // seconds since 1970
  std::uint32_t creator_pid = 0;     // as SegmentHolder::pid
  std::vector<SegmentHolder> holders{};
};

// What /dev/shm itself says, in bytes.
struct ShmUse {
  std::uint64_t size = 0, free = 0;
  std::uint64_t shoal = 0;   // taken by files with the prefix
  std::uint64_t others = 0;  // taken by all else
};

// All segments with names that start with `prefix`, by name. One that goes meanwhile is left out.
// Throws Error only if /dev/shm cannot be read.
[[nodiscard]] std::vector<SegmentReport> survey_segments(const std::string& prefix);

// One of them; empty if there is none of this name.
[[nodiscard]] std::optional<SegmentReport> survey_segment(const std::string& name);

[[nodiscard]] ShmUse survey_shm(const std::vector<SegmentReport>& segments);

}  // namespace shoal
