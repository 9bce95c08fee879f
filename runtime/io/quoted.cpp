#include "shoal/runtime/io/quoted.h"

#include <nlohmann/json.hpp>

namespace shoal {

std::string quoted_for_message(const std::string& text) {
  using Json = nlohmann::json;
  constexpr std::size_t kMost = 80;
  // Cut first, so that megabytes of text cost nothing; a character cut in two is replaced.
  const std::string shown = text.substr(0, kMost);
  return Json(shown).dump(-1, ' ', true, Json::error_handler_t::replace) +
         (shown.size() < text.size() ? "…" : "");
}

}  // namespace shoal
