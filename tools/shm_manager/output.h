#pragma once

#include <string>
#include <string_view>

// Standard output. SIGPIPE has to be ignored.
namespace shoal::tools {

// Writes all of it. False if the reader has gone, as `head` does, which is no failure. Throws Error
// if it cannot be written for another reason.
[[nodiscard]] bool print(std::string_view text);

[[nodiscard]] bool prints_to_terminal();

enum class Color { automatic, always, never };

// Automatic: on a terminal that is not a dumb one, unless the environment has a NO_COLOR.
[[nodiscard]] bool is_colored(Color color);

}  // namespace shoal::tools
