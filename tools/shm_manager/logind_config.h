#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shoal::tools {

// The value of `key` in section [Login] of logind's configuration, as logind reads it: logind.conf
// and then the drop-ins of all folders by name, the last that says something wins; a drop-in in
// /etc hides one of the same name in /run, that one in /usr. Empty if none says anything.
struct LogindSetting {
  std::string value{};
  std::string file{};  // that says so, without the root
};
[[nodiscard]] std::optional<LogindSetting> read_logind_setting(std::string_view key,
                                                               const std::string& root);

}  // namespace shoal::tools
