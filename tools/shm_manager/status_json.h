#pragma once

#include <string>

#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {

// A snapshot as json_line.h writes it. With `grouped` it has "groups" besides.
[[nodiscard]] std::string to_json(const Snapshot& snapshot, bool grouped);

}  // namespace shoal::tools
