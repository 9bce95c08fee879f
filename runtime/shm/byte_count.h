#pragma once

#include <cstdint>
#include <iomanip>
#include <ostream>

namespace shoal {

// A number of bytes that prints for people: "512 B", "1.5 MiB".
struct ByteCount {
  std::uint64_t value = 0;

  friend std::ostream& operator<<(std::ostream& out, ByteCount count) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = static_cast<double>(count.value);
    int unit = 0;
    for (; size >= 1024 && unit < 6; ++unit) size /= 1024;
    return out << std::setprecision(4) << size << ' ' << kUnits[unit];
  }
};

}  // namespace shoal
