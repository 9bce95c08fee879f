#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace shoal::tools {

// --prefix, by which names are chosen. Empty if it is not given: resolve_prefix says what then.
void add_prefix_option(CLI::App& app, std::string& prefix);

// What this process would give its own names. Throws Error if SHOAL_NAME_PREFIX is none.
[[nodiscard]] std::string resolve_prefix(const std::string& given);

}  // namespace shoal::tools
