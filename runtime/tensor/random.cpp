#include "shoal/runtime/tensor/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "shoal/runtime/base/error.h"

namespace shoal {

double Generator::uniform(double low, double high) {
  check(low <= high && std::isfinite(high - low), ErrorKind::invalid_argument, "Generator::uniform",
        "cannot draw from [", low, ", ", high, ")");
  const double unit = static_cast<double>(engine_() >> 11) * 0x1p-53;
  const double drawn = low + (high - low) * unit;
  // The sum may round up to the end, which is not in the range.
  return drawn < high ? drawn : std::nextafter(high, low);
}

double Generator::normal() {
  // 1 - u is above 0, so that its logarithm is finite.
  const double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

bool Generator::chance(double p) {
  if (p >= 1) return true;
  return engine_() < static_cast<std::uint64_t>(std::max(p, 0.0) * 0x1p64);
}

std::uint64_t Generator::below(std::uint64_t bound) {
  check(bound > 0, ErrorKind::invalid_argument, "Generator::below", "nothing is below 0");
  // Draws beyond the last whole multiple of `bound` would favour small numbers.
  const std::uint64_t excess = (UINT64_MAX % bound + 1) % bound;
  std::uint64_t drawn = engine_();
  while (drawn > UINT64_MAX - excess) drawn = engine_();
  return drawn % bound;
}

std::vector<std::int64_t> Generator::permutation(std::int64_t n) {
  check(n >= 0, ErrorKind::invalid_argument, "Generator::permutation", "of ", n, " numbers");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(below(i))]);
  return order;
}

}  // namespace shoal
