#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

// What is shown to people of what others have chosen.
namespace shoal::tools {

// Bytes that may be anything, such as a file's name, as text that a terminal cannot take for
// commands: printable ASCII stays, a backslash is doubled, every other byte becomes \xNN. Different
// bytes stay different.
[[nodiscard]] std::string printable(std::string_view bytes);

// A time span that prints for people, in its largest unit: "12 s", "3 min", "5 h", "2 d".
struct Age {
  std::uint64_t seconds = 0;

  friend std::ostream& operator<<(std::ostream& out, Age age);
};

}  // namespace shoal::tools
