#pragma once

#include <string>

#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {

// A snapshot for people: segments, or who made them, then the manager and its clients, then totals.
// Nothing in it can be a command to a terminal but its own colours.
[[nodiscard]] std::string to_text(const Snapshot& snapshot, bool grouped, bool colored);

}  // namespace shoal::tools
