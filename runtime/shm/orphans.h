#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal {

// What became of a name that was to be reaped.
enum class ReapOutcome {
  removed,
  live,     // somebody holds it, or may come to
  foreign,  // another user's, so that we may not look or may not remove it
  unknown,  // no segment of this layout
  gone,     // there was none
  failed,   // it could not be looked at for now: this process is short of descriptors or memory
};

[[nodiscard]] std::string_view to_string(ReapOutcome outcome);

// Removes the name from /dev/shm if it is a named segment's that nobody has a lock on
// (slot_lock.h): then only dead processes held it. Keeps what it cannot judge. Any process may call
// it at any time.
ReapOutcome reap_segment(const std::string& name) noexcept;

// The same for all names with this process' prefix. Returns how many it removed.
std::size_t reap_orphans();

}  // namespace shoal
