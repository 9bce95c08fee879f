#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace shoal {

// Seeded random numbers that are the same on every platform: the engine is the standard's
// mt19937_64, the draws are defined here, since those of <random> differ between libraries.
// Not for sharing between threads.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : engine_(seed) {}

  // In [low, high), from 53 random bits; `low` if both are equal. Throws Error(invalid_argument)
  // unless low <= high and their distance is finite.
  [[nodiscard]] double uniform(double low, double high);

  // From the normal distribution of mean 0 and deviation 1, by the method of Box and Muller; two
  // draws of the engine for each.
  [[nodiscard]] double normal();

  // True with probability p: of one draw of the engine, whether its 64 bits, as a number, are below
  // that part of all there are.
  [[nodiscard]] bool chance(double p);

  // In [0, bound), each equally likely; bound is at least 1. Throws Error(invalid_argument) for 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);

  // 0 … n-1 in random order (Fisher and Yates).
  [[nodiscard]] std::vector<std::int64_t> permutation(std::int64_t n);

 private:
  std::mt19937_64 engine_;
};

}  // namespace shoal
