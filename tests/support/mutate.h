#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/runtime/base/error.h"
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

// `load` of 2000 damaged copies, of each of `valid` in turn, loads or throws an Error that names
// `path`; some do this, some that.
template <class Load>
void expect_loads_or_refuses(const std::vector<std::string>& valid, std::uint64_t seed,
                             const std::string& path, const Load& load) {
  constexpr int kCopies = 2000;
  Generator random(seed);
  int loaded = 0;
  for (std::size_t i = 0; i < kCopies; ++i) {
    try {
      load(mutate(valid[i % valid.size()], random));
      ++loaded;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(path), std::string_view::npos) << error.what();
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_LT(loaded, kCopies);
}

}  // namespace shoal
