#pragma once

#include <cstddef>

namespace shoal {

// Removes from /dev/shm the named segments that only dead processes held: those of which nobody has
// a lock (slot_lock.h). Touches only files of this user that carry this process' name prefix, and
// keeps whatever it cannot open or judge. Any process may call it at any time. Returns how many it
// removed.
std::size_t reap_orphans();

}  // namespace shoal
