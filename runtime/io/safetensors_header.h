#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/runtime/device/dtype.h"
#include "shoal/runtime/tensor/shape.h"

// The JSON header of a safetensors file, as text and as a list. Not a public header.
namespace shoal {

inline constexpr std::size_t kMaxSafetensorsHeader = 100'000'000;
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // within the data, which follow the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Empty if the format's name is of no dtype that Shoal has.
[[nodiscard]] std::optional<DType> dtype_of_safetensors(std::string_view name);

// Padded with spaces to a multiple of 8 bytes. Throws Error(invalid_argument) for text that is not
// UTF-8 and for a header longer than readers accept.
[[nodiscard]] std::string format_safetensors_header(const SafetensorsHeader& header,
                                                    const std::string& path);

// The entries fill `data_nbytes` without holes or overlaps, each as large as its shape says. Throws
// Error(malformed) otherwise, and Error(unsupported) for a dtype or rank that Shoal does not have.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text,
                                                         std::uint64_t data_nbytes,
                                                         const std::string& path);

}  // namespace shoal
