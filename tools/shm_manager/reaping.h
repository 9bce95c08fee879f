#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::tools {

// What was done, or would be, with one segment.
enum class Fate {
  removed,
  would_remove,  // in a dry run
  failed,        // orphaned, but it could not be removed
  live,
  foreign,  // another user's; not ours to judge or remove
  unknown,  // no segment that we can judge
  gone,     // somebody else has removed it meanwhile
};

[[nodiscard]] std::string_view to_string(Fate fate);

struct Reaped {
  std::string name{};
  Fate fate = Fate::unknown;
  std::string reason{};  // why it is still there; may be empty
  std::uint64_t nbytes = 0, resident_bytes = 0;
  std::uint32_t creator_pid = 0;
};

// Removes all orphaned segments with this prefix that are this user's, or anybody's for root; in a
// dry run it only says which. All segments are in the answer, by name. What lives is not touched,
// nor what cannot be judged. Throws Error if /dev/shm cannot be looked at.
[[nodiscard]] std::vector<Reaped> reap_segments(const std::string& prefix, bool dry_run);

}  // namespace shoal::tools
