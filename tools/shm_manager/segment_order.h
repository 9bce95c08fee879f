#pragma once

#include <string>
#include <vector>

#include "shoal/runtime/shm/segment_survey.h"

namespace shoal::tools {

// What segments can be sorted by.
[[nodiscard]] std::vector<std::string> segment_order_keys();

// By name from a to z, by numbers the largest first, by state what needs a look first; what is
// equal stays by name. `reverse` turns it all round. `key` is one of segment_order_keys().
void sort_segments(std::vector<SegmentReport>& segments, const std::string& key, bool reverse);

}  // namespace shoal::tools
