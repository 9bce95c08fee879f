#pragma once

#include <string>

namespace shoal::tools {

// spdlog's default logger writes to standard error from now on: lines with the time, in colour on a
// terminal; or, where the journal reads them, with a priority in front instead (sd-daemon(3)).
void log_to_standard_error(const std::string& level);

// One of spdlog's names of levels.
void set_log_level(const std::string& level);

}  // namespace shoal::tools
