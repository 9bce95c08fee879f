#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

// The rule of the house, executable: which file may include what, and how long a file may be.
namespace shoal::house {

struct Source {
  std::string path;  // from the root of the tree: "runtime/base/fd.h"
  std::string text;
};

// One line for each thing that is wrong in `source`: "path:line: what, and the rule it breaks".
// `exists` tells whether the tree has a file, by its path from the root.
[[nodiscard]] std::vector<std::string> violations(
    const Source& source, const std::function<bool(const std::string& path)>& exists);

// The files after HEADERS in a CMakeLists.txt, as it spells them.
[[nodiscard]] std::vector<std::string> public_headers(std::string_view cmake_lists);

}  // namespace shoal::house
