#pragma once

#include <functional>

namespace shoal::tools {

// Calls `show` now and then every `seconds`, until SIGINT or SIGTERM comes, whoever reads standard
// output has gone, or `show` returns false. For a process of one thread.
void watch(double seconds, const std::function<bool()>& show);

}  // namespace shoal::tools
