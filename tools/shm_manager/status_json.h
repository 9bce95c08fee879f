#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {

// A snapshot as one line of JSON, with its end. Names are as they are, but for bytes that are no
// UTF-8, which JSON cannot hold. With `grouped` it has "groups" besides.
[[nodiscard]] std::string to_json(const Snapshot& snapshot, bool grouped);

// In ASCII, so that it can be shown on a terminal whatever is in it.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& json);

}  // namespace shoal::tools
