#pragma once

#include <string>

#include "shoal/runtime/tensor/random.h"

namespace shoal {

// A copy with a few random wounds: bytes changed, removed, repeated, or the end cut off.
inline std::string mutate(std::string bytes, Generator& random) {
  for (auto wounds = 1 + random.below(3); wounds > 0 && !bytes.empty(); --wounds) {
    const auto at = random.below(bytes.size());
    const auto length = 1 + random.below(8);
    switch (random.below(6)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      default:
        bytes[at] = static_cast<char>(random.below(256));
        break;
    }
  }
  return bytes;
}

}  // namespace shoal
