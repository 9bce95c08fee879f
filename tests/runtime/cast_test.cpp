#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/tensors.h"

namespace shoal {
namespace {

using test::values_of;

template <class To, class From>
To cast(From value) {
  return Tensor::from({value}).to(dtype_of<To>).template item<To>();
}

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                             DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};

// Every pair of dtypes: from the first to the second.
class Cast : public testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  const DType from_ = std::get<0>(GetParam());
  const DType to_ = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(, Cast,
                         testing::Combine(testing::ValuesIn(kDTypes), testing::ValuesIn(kDTypes)),
                         [](const auto& pair) {
                           return std::string(to_string(std::get<0>(pair.param))) + "_to_" +
                                  std::string(to_string(std::get<1>(pair.param)));
                         });

TEST_P(Cast, KeepsWhatBothCanHold) {
  const Tensor small = Tensor::arange(0, 2, from_);
  EXPECT_TRUE(equal(small.to(to_), Tensor::arange(0, 2, to_)));
  if (from_ == DType::boolean || to_ == DType::boolean) return;
  const Tensor larger = Tensor::arange(0, 127, from_);
  EXPECT_TRUE(equal(larger.to(to_), Tensor::arange(0, 127, to_)));
}

TEST_P(Cast, TakesAnyLayoutAndNoElements) {
  const Tensor matrix = Tensor::arange(0, 12, from_).reshape({3, 4});
  const Tensor wanted = Tensor::arange(0, 12, from_).to(to_).reshape({3, 4});
  EXPECT_TRUE(equal(matrix.transpose().to(to_), wanted.transpose()));
  EXPECT_TRUE(equal(matrix.slice(1, 1, 4, 2).to(to_), wanted.slice(1, 1, 4, 2)));
  EXPECT_EQ(Tensor::empty({0, 3}, from_).to(to_).shape(), (Shape{0, 3}));
}

TEST_P(Cast, ToItsOwnTypeIsNoCopy) {
  const Tensor tensor = Tensor::zeros({2}, from_);
  EXPECT_EQ(tensor.to(to_).storage() == tensor.storage(), from_ == to_);
}

template <class T>
class FloatsToIntegers : public testing::Test {};
using Integers =
    testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(FloatsToIntegers, Integers);

TYPED_TEST(FloatsToIntegers, TruncateAndSaturate) {
  using To = TypeParam;
  using Limits = std::numeric_limits<To>;
  const auto check = [](auto unit) {
    using From = decltype(unit);
    const From beyond = std::ldexp(From{1}, Limits::digits);
    EXPECT_EQ((cast<To, From>(From{2.9f})), 2);
    EXPECT_EQ((cast<To, From>(From{-0.9f})), 0);
    EXPECT_EQ((cast<To, From>(From{-2.9f})), Limits::is_signed ? To(-2) : To(0));
    EXPECT_EQ((cast<To, From>(beyond)), Limits::max());
    EXPECT_EQ((cast<To, From>(From{1e30f})), Limits::max());
    EXPECT_EQ((cast<To, From>(From{-1e30f})), Limits::min());
    EXPECT_EQ((cast<To, From>(-beyond)), Limits::min());
    EXPECT_EQ((cast<To, From>(std::nextafter(beyond, From{0}))),
              static_cast<To>(std::nextafter(beyond, From{0})));
    EXPECT_EQ((cast<To, From>(std::numeric_limits<From>::infinity())), Limits::max());
    EXPECT_EQ((cast<To, From>(-std::numeric_limits<From>::infinity())), Limits::min());
    EXPECT_EQ((cast<To, From>(std::numeric_limits<From>::quiet_NaN())), 0);
  };
  check(1.0f);
  check(1.0);
}

TYPED_TEST(FloatsToIntegers, SaturateFromHalfToo) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor extremes = Tensor::from({INFINITY, -INFINITY, NAN}).to(dtype);
    using Limits = std::numeric_limits<TypeParam>;
    EXPECT_EQ(values_of<TypeParam>(extremes.to(dtype_of<TypeParam>)),
              (std::vector<TypeParam>{Limits::max(), Limits::min(), 0}));
  }
}

TEST(IntegerCast, Wraps) {
  EXPECT_EQ((cast<std::uint8_t, std::int8_t>(-1)), 255);
  EXPECT_EQ((cast<std::int8_t, std::uint8_t>(200)), -56);
  EXPECT_EQ((cast<std::int8_t, std::int16_t>(0x1ff)), -1);
  EXPECT_EQ((cast<std::int32_t, std::int64_t>(INT64_MAX)), -1);
  EXPECT_EQ((cast<std::uint8_t, std::int64_t>(INT64_MIN + 7)), 7);
  EXPECT_EQ((cast<std::int64_t, std::int8_t>(-3)), -3);
}

TEST(IntegerCast, RoundsToTheNearestFloat) {
  EXPECT_EQ((cast<float, std::int32_t>((1 << 24) + 1)), 0x1p24f);
  EXPECT_EQ((cast<float, std::int32_t>((1 << 24) + 3)), 0x1p24f + 4);
  EXPECT_EQ((cast<double, std::int64_t>(INT64_MAX)), 0x1p63);
}

TEST(BoolCast, IsNotZero) {
  EXPECT_TRUE((cast<bool, float>(-0.25f)));
  EXPECT_FALSE((cast<bool, float>(-0.0f)));
  EXPECT_TRUE((cast<bool, double>(NAN)));
  EXPECT_TRUE((cast<bool, std::int64_t>(INT64_MIN)));
  EXPECT_FALSE((cast<bool, std::uint8_t>(0)));
  EXPECT_TRUE((cast<bool, Half>({0x0001}))) << "the smallest subnormal";
  EXPECT_FALSE((cast<bool, Half>({0x8000}))) << "minus zero";
  EXPECT_TRUE((cast<bool, BFloat16>({0x7fc0}))) << "NaN";
}

TEST(BoolCast, TakesAnyByteForTrue) {
  const Tensor bytes = Tensor::from<std::uint8_t>({0, 1, 2, 255});
  const Tensor foreign = Tensor::over(bytes.storage(), DType::boolean, {2, 2}, {2, 1});
  EXPECT_EQ(values_of<std::int32_t>(foreign.to(DType::i32)),
            (std::vector<std::int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(values_of<float>(foreign.transpose().to(DType::f32)), (std::vector<float>{0, 1, 1, 1}));
}

std::uint16_t half_bits(float value) { return cast<Half, float>(value).bits; }
std::uint16_t bfloat16_bits(float value) { return cast<BFloat16, float>(value).bits; }

TEST(HalfCast, RoundsToNearestEven) {
  EXPECT_EQ(half_bits(1.0f), 0x3c00);
  EXPECT_EQ(half_bits(-2.0f), 0xc000);
  EXPECT_EQ(half_bits(1.0f + 0x1p-11f), 0x3c00) << "a tie goes to the even neighbour below";
  EXPECT_EQ(half_bits(1.0f + 3 * 0x1p-11f), 0x3c02) << "a tie goes to the even neighbour above";
  EXPECT_EQ(half_bits(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(half_bits(65504.0f), 0x7bff);
  EXPECT_EQ(half_bits(65519.0f), 0x7bff);
  EXPECT_EQ(half_bits(65520.0f), 0x7c00);
  EXPECT_EQ(half_bits(-INFINITY), 0xfc00);
  EXPECT_EQ(half_bits(0x1p-24f), 0x0001);
  EXPECT_EQ(half_bits(0x1p-25f), 0x0000);
  EXPECT_EQ(half_bits(-0.0f), 0x8000);
}

TEST(BFloat16Cast, RoundsToNearestEven) {
  EXPECT_EQ(bfloat16_bits(1.0f), 0x3f80);
  EXPECT_EQ(bfloat16_bits(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bfloat16_bits(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(bfloat16_bits(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(bfloat16_bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bfloat16_bits(-INFINITY), 0xff80);
  EXPECT_EQ(bfloat16_bits(-0.0f), 0x8000);
}

TEST(HalfCast, GoesThereAndBackForEveryBitPattern) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor bits = Tensor::arange(0, 65536, DType::i32).to(DType::i16);
    const Tensor all = Tensor::over(bits.storage(), dtype, {65536}, {1});
    const auto before = values_of<std::int16_t>(bits);
    for (const DType wide : {DType::f32, DType::f64}) {
      const Tensor back = all.to(wide).to(dtype);
      const auto values = values_of<double>(all.to(DType::f64));
      for (std::size_t i = 0; i < 65536; ++i) {
        if (std::isnan(values[i])) {
          EXPECT_TRUE(std::isnan(
              back.select(0, static_cast<std::int64_t>(i)).to(wide).to(DType::f64).item<double>()));
        } else {
          ASSERT_EQ(test::element<std::int16_t>(back, {static_cast<std::int64_t>(i)}), before[i]);
        }
      }
    }
  }
}

TEST(FloatCast, KeepsNaNAndInfinity) {
  for (const DType from : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const DType to : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const Tensor extremes = Tensor::from({INFINITY, -INFINITY, NAN}).to(from).to(to);
      const auto values = values_of<double>(extremes.to(DType::f64));
      EXPECT_EQ(values[0], INFINITY);
      EXPECT_EQ(values[1], -INFINITY);
      EXPECT_TRUE(std::isnan(values[2])) << to_string(from) << " to " << to_string(to);
    }
  }
  EXPECT_EQ((cast<float, double>(1e300)), INFINITY);
  EXPECT_EQ((cast<float, double>(1e-300)), 0.0f);
}

}  // namespace
}  // namespace shoal
