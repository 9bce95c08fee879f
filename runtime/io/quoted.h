#pragma once

#include <string>

namespace shoal {

// Text from a file for a message: in quotes, control characters and other scripts escaped, not too
// long. Not a public header.
[[nodiscard]] std::string quoted_for_message(const std::string& text);

}  // namespace shoal
