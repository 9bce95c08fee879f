#pragma once

#include <string_view>

namespace shoal {

// The one place that states Shoal's version; the build reads it from here.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace shoal
