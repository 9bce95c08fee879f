#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shoal::tools {

// One line with its end, in ASCII, so that it may be shown on a terminal whatever is in it. Bytes
// that are no UTF-8, which JSON cannot hold, become U+FFFD.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& json);

// null if it is empty.
[[nodiscard]] nlohmann::ordered_json text_or_null(const std::string& text);

}  // namespace shoal::tools
