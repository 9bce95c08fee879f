#include "shoal/runtime/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/quoted.h"

namespace shoal {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kAlignment = 8;  // of the data, counted from the start of the file

// In the order of the enum.
constexpr std::array<std::string_view, kDTypeCount> kNames{"F32", "F64", "F16", "BF16", "I8",
                                                           "U8",  "I16", "I32", "I64",  "BOOL"};

std::string json_string(const std::string& text, const std::string& path) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "save_safetensors",
                 .subject = path,
                 .reason = concat("the name or metadata ", quoted_for_message(text),
                                  " is not valid UTF-8")});
  }
}

}  // namespace

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return dtype_from_wire(static_cast<std::uint64_t>(found - kNames.begin()));
}

std::string format_safetensors_header(const SafetensorsHeader& header, const std::string& path) {
  std::string text = "{";
  const char* comma = "";
  if (!header.metadata.empty()) {
    text += concat('"', kSafetensorsMetadata, "\":{");
    for (const auto& [name, value] : header.metadata) {
      text += concat(comma, json_string(name, path), ":", json_string(value, path));
      comma = ",";
    }
    text += "}";
  }
  for (const SafetensorsEntry& entry : header.entries) {
    text += concat(comma, json_string(entry.name, path), ":{\"dtype\":\"",
                   kNames[static_cast<std::size_t>(entry.dtype)], "\",\"shape\":[");
    for (int axis = 0; axis < entry.shape.rank(); ++axis)
      text += concat(axis > 0 ? "," : "", entry.shape[axis]);
    text += concat("],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
    comma = ",";
  }
  text += "}";
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxSafetensorsHeader)
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "save_safetensors",
                 .subject = path,
                 .reason = concat("names and metadata make a header of ", text.size(),
                                  " bytes; readers accept ", kMaxSafetensorsHeader),
                 .remedy = "Spread the tensors over several files"});
  return text;
}

}  // namespace shoal
