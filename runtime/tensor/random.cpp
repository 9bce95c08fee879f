#include "shoal/runtime/tensor/random.h"

#include <numeric>
#include <utility>

namespace shoal {

double Generator::uniform(double low, double high) {
  const double unit = static_cast<double>(engine_() >> 11) * 0x1p-53;
  return low + (high - low) * unit;
}

std::uint64_t Generator::below(std::uint64_t bound) {
  // Draws beyond the last whole multiple of `bound` would favour small numbers.
  const std::uint64_t excess = (UINT64_MAX % bound + 1) % bound;
  std::uint64_t drawn = engine_();
  while (drawn > UINT64_MAX - excess) drawn = engine_();
  return drawn % bound;
}

std::vector<std::int64_t> Generator::permutation(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(below(i))]);
  return order;
}

}  // namespace shoal
