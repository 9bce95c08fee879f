#include "shoal/runtime/tensor/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/tensors.h"

namespace shoal {
namespace {

using test::refuses;
using test::values_of;

// A seed means the same run on every platform and in every release: these may not change.
TEST(Generator, DrawsWhatItAlwaysDrew) {
  Generator uniform(42), below(7), order(1);
  EXPECT_EQ(uniform.uniform(0, 1), 0x1.82a3befaddcbcp-1);
  EXPECT_EQ(uniform.uniform(0, 1), 0x1.472f1f73724ap-1);
  EXPECT_EQ(uniform.uniform(0, 1), 0x1.81192cfe1cbcfp-1);
  for (const std::uint64_t wanted : {15u, 250u, 878u, 46u, 421u, 428u})
    EXPECT_EQ(below.below(1000), wanted);
  EXPECT_EQ(order.permutation(8), (std::vector<std::int64_t>{4, 6, 3, 5, 1, 7, 2, 0}));
}

TEST(Generator, DrawsAllNumbersBelowABound) {
  Generator generator(1);
  std::vector<int> seen(7, 0);
  for (int i = 0; i < 70'000; ++i) ++seen.at(generator.below(7));
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(generator.below(1), 0u);
  for (int i = 0; i < 100; ++i) EXPECT_LT(generator.below(UINT64_MAX), UINT64_MAX);
  // Half of all draws lie beyond the only whole multiple of this bound, and are drawn again.
  constexpr std::uint64_t kOdd = (std::uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) EXPECT_LT(generator.below(kOdd), kOdd);
}

TEST(Generator, PermutesEveryNumberOnce) {
  Generator generator(2);
  for (const std::int64_t n : {0, 1, 1000}) {
    auto order = generator.permutation(n);
    ASSERT_EQ(static_cast<std::int64_t>(order.size()), n);
    EXPECT_EQ(std::is_sorted(order.begin(), order.end()), n < 2);
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> wanted(order.size());
    std::iota(wanted.begin(), wanted.end(), std::int64_t{0});
    EXPECT_EQ(order, wanted);
  }
}

TEST(Generator, DrawsEvenlyFromARange) {
  Generator generator(3);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double drawn = generator.uniform(-2, 6);
    ASSERT_GE(drawn, -2);
    ASSERT_LT(drawn, 6);
    sum += drawn;
  }
  EXPECT_NEAR(sum / 100'000, 2, 0.05);
}

TEST(Generator, NeverReachesTheEndOfItsRange) {
  Generator generator(4);
  const double high = std::nextafter(1.0, 2.0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(generator.uniform(1, high), 1);
  EXPECT_EQ(generator.uniform(3, 3), 3);
}

TEST(Generator, RefusesRangesItCannotDrawFrom) {
  constexpr double kMost = std::numeric_limits<double>::max();
  Generator generator(5);
  EXPECT_TRUE(refuses([&] { (void)generator.uniform(1, 0); }, {"uniform"}));
  EXPECT_TRUE(refuses([&] { (void)generator.uniform(0, NAN); }));
  EXPECT_TRUE(refuses([&] { (void)generator.uniform(0, INFINITY); }));
  EXPECT_TRUE(refuses([&] { (void)generator.uniform(-kMost, kMost); }));
  EXPECT_TRUE(refuses([&] { (void)generator.below(0); }, {"below"}));
  EXPECT_TRUE(refuses([&] { (void)generator.permutation(-1); }, {"permutation", "-1"}));
}

TEST(UniformTensor, StaysBelowTheEndAfterRounding) {
  Generator generator(6);
  const float high = std::nextafter(1.0f, 2.0f);
  const Tensor drawn = Tensor::uniform({100}, 1, high, generator);
  for (const float value : drawn.span<float>()) EXPECT_EQ(value, 1.0f);
}

TEST(UniformTensor, RefusesOtherTypes) {
  Generator generator(7);
  for (const DType dtype : {DType::i64, DType::f16, DType::boolean})
    EXPECT_TRUE(refuses([&] { (void)Tensor::uniform({2}, 0, 1, generator, dtype); }, {"uniform"}));
}

TEST(UniformTensor, DrawsTheSameNumbersInBothTypes) {
  Generator one(8), other(8);
  const Tensor narrow = Tensor::uniform({3, 4}, -1, 1, one);
  const Tensor wide = Tensor::uniform({3, 4}, -1, 1, other, DType::f64);
  EXPECT_EQ(narrow.dtype(), DType::f32);
  EXPECT_TRUE(equal(wide.to(DType::f32), narrow));
  EXPECT_NE(one.uniform(0, 1), Generator(8).uniform(0, 1));
}

}  // namespace
}  // namespace shoal
