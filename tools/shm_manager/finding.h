#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::tools {

// How much a finding matters; the greater, the more.
enum class Level : std::uint8_t {
  ok,
  note,     // good to know
  warning,  // works now, but may fail
  problem,  // something does not work
};

[[nodiscard]] std::string_view to_string(Level level);

// One thing that doctor looked at.
struct Finding {
  Level level = Level::ok;
  std::string check{};   // what was looked at, a word for scripts
  std::string text{};    // what was found; may have anything in it, like a file's name
  std::string remedy{};  // what to do; empty if there is nothing to
};

using Findings = std::vector<Finding>;

}  // namespace shoal::tools
