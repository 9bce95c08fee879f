#include "shoal/tools/shm_manager/printable.h"

namespace shoal::tools {

std::string printable(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < ' ' || value > '~') {
      text += "\\x";
      text += kDigits[value / 16];
      text += kDigits[value % 16];
    } else {
      if (byte == '\\') text += '\\';
      text += byte;
    }
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, Age age) {
  constexpr std::uint64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (age.seconds < kMinute) return out << age.seconds << " s";
  if (age.seconds < kHour) return out << age.seconds / kMinute << " min";
  if (age.seconds < kDay) return out << age.seconds / kHour << " h";
  return out << age.seconds / kDay << " d";
}

}  // namespace shoal::tools
