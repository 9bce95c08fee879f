#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shoal/runtime/tensor/ops.h"
#include "shoal/runtime/tensor/random.h"
#include "support/tensors.h"

namespace shoal {
namespace {

using test::element;
using test::for_each_index;
using test::Index;
using test::refuses;
using test::values_of;

// What takes an axis, against loops over indices.
template <class T>
class Reductions : public testing::Test {
 protected:
  static constexpr DType dtype = dtype_of<T>;
  static constexpr double kTolerance = 1e-5;

  Tensor random(const Shape& shape) { return Tensor::uniform(shape, -2, 2, generator_, dtype); }
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return Tensor::from(values, shape);
  }

  Generator generator_{12};
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Reductions, Floats);

TYPED_TEST(Reductions, SumAlongEveryAxisOfEveryLayout) {
  const Tensor base = this->random({3, 4, 5});
  for (const Tensor& x : {base, base.transpose(), base.slice(1, 0, 4, 2), base.slice(2, 5, 5),
                          base.select(0, 1).expand({2, 4, 5})}) {
    for (int axis = 0; axis < 3; ++axis) {
      Shape kept = x.shape();
      kept[axis] = 1;
      std::vector<double> wanted(static_cast<std::size_t>(numel(kept)), 0);
      for_each_index(x.shape(), [&](Index index) {
        const double value = element<TypeParam>(x, index);
        index[static_cast<std::size_t>(axis)] = 0;
        std::int64_t at = 0;
        for (int i = 0; i < 3; ++i) at = at * kept[i] + index[static_cast<std::size_t>(i)];
        wanted[static_cast<std::size_t>(at)] += value;
      });
      const Tensor y = ops::sum(x, axis - 3, true);
      ASSERT_EQ(y.shape(), kept);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(y.template span<TypeParam>()[i], wanted[i], this->kTolerance);
      kept.erase(axis);
      EXPECT_TRUE(equal(ops::sum(x, axis), y.reshape(kept)));
    }
  }
}

TYPED_TEST(Reductions, SumAndAverageEverything) {
  const Tensor x = Tensor::arange(0, 6, this->dtype).reshape({2, 3}).transpose();
  EXPECT_EQ(ops::sum(x).template item<TypeParam>(), 15);
  EXPECT_EQ(ops::mean(x).template item<TypeParam>(), 2.5);
  EXPECT_EQ(ops::sum(this->random({3, 0})).template item<TypeParam>(), 0);
  EXPECT_TRUE(std::isnan(ops::mean(this->random({3, 0})).template item<TypeParam>()));
  EXPECT_EQ(ops::sum(Tensor::ones({}, this->dtype)).template item<TypeParam>(), 1);
}

TYPED_TEST(Reductions, SumToUndoesExpand) {
  for (const Shape& shape : {Shape{}, {1}, {3}, {1, 3}, {2, 1}, {2, 3}, {1, 1, 3}, {1, 2, 1}}) {
    const Tensor small = Tensor::arange(0, numel(shape), this->dtype).reshape(shape);
    const Tensor repeated = small.expand(broadcast_shapes(shape, {4, 2, 3}, "test"));
    const double times = static_cast<double>(repeated.numel()) / static_cast<double>(small.numel());
    EXPECT_TRUE(equal(ops::sum_to(repeated, shape), ops::scale(small, times))) << shape;
  }
  EXPECT_TRUE(equal(ops::sum_to(this->random({0, 3}), {1, 3}), Tensor::zeros({1, 3}, this->dtype)));
}

TYPED_TEST(Reductions, OfHugeEmptyTensorsAreImmediate) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(ops::sum(Tensor::empty({kHuge, 5, 0}, this->dtype), 1).shape(), (Shape{kHuge, 0}));
  EXPECT_EQ(ops::sum(Tensor::empty({kHuge, kHuge, 0, 5}, this->dtype), 3).numel(), 0);
  EXPECT_TRUE(refuses([&] { (void)ops::sum(Tensor::empty({kHuge, kHuge, 0}, this->dtype), 2); }));
}

TYPED_TEST(Reductions, FindNaNAsTheLargest) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  const Tensor x = this->from({nan, 9, 1, 9, nan, 1, 1, nan, nan}, {3, 3});
  EXPECT_EQ(values_of<std::int64_t>(ops::argmax(x)), (std::vector<std::int64_t>{0, 1, 1}));
}

TYPED_TEST(Reductions, FindTheFirstOfEqualMaxima) {
  const Tensor x = this->from({1, 3, 3, -1, -1, -1, 0, -2, 5}, {3, 3});
  EXPECT_EQ(values_of<std::int64_t>(ops::argmax(x)), (std::vector<std::int64_t>{1, 0, 2}));
  EXPECT_EQ(values_of<std::int64_t>(ops::argmax(x.transpose())),
            (std::vector<std::int64_t>{0, 0, 2}));
  EXPECT_EQ(ops::argmax(x.select(0, 2)).template item<std::int64_t>(), 2);
  EXPECT_EQ(ops::argmax(this->random({0, 3})).shape(), Shape{0});
}

TYPED_TEST(Reductions, TakeLogSoftmaxOfAnyMagnitude) {
  const TypeParam huge = std::numeric_limits<TypeParam>::max();
  const Tensor x = this->from({1000, 1000, -1000, -1000, huge, -huge / 2, 0, 0}, {4, 2});
  const auto y = values_of<TypeParam>(ops::log_softmax(x));
  for (const std::size_t i : {0u, 1u, 2u, 3u, 6u, 7u})
    EXPECT_NEAR(y[i], -std::log(2.0), this->kTolerance);
  EXPECT_EQ(y[4], 0);
  EXPECT_LT(y[5], -huge);
}

TYPED_TEST(Reductions, TakeLogSoftmaxAlongTheLastAxis) {
  const Tensor x = this->random({4, 3, 2}).permute({2, 1, 0});  // (2,3,4)
  const Tensor y = ops::log_softmax(x), dy = this->random({2, 3, 4});
  const Tensor dx = ops::log_softmax_backward(dy, y);
  for_each_index({2, 3}, [&](const Index& row) {
    double total = 0, gradient = 0;
    const auto at = [&](const Tensor& t, std::int64_t i) {
      return static_cast<double>(element<TypeParam>(t, {row[0], row[1], i}));
    };
    for (std::int64_t i = 0; i < 4; ++i) {
      total += std::exp(at(x, i));
      gradient += at(dy, i);
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(at(y, i), at(x, i) - std::log(total), this->kTolerance);
      EXPECT_NEAR(at(dx, i), at(dy, i) - std::exp(at(x, i)) / total * gradient, this->kTolerance);
    }
  });
  EXPECT_EQ(ops::log_softmax(this->random({2, 0})).shape(), (Shape{2, 0}));
  EXPECT_EQ(ops::log_softmax_backward(this->random({0, 2}), this->random({0, 2})).numel(), 0);
}

TYPED_TEST(Reductions, TakeAndAddAtAnIndexOfEachRow) {
  const Tensor x = Tensor::arange(0, 6, this->dtype).reshape({3, 2}).transpose();  // (2,3)
  const Tensor index = Tensor::from<std::int64_t>({2, 0});
  EXPECT_EQ(values_of<TypeParam>(ops::take(x, index)), (std::vector<TypeParam>{4, 1}));
  const Tensor y = Tensor::ones({2, 3}, this->dtype);
  ops::add_at(y, index, -1);
  EXPECT_EQ(values_of<TypeParam>(y), (std::vector<TypeParam>{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(ops::take(this->random({0, 3}), Tensor::zeros({0}, DType::i64)).numel(), 0);
}

TYPED_TEST(Reductions, RefuseBadIndices) {
  const Tensor x = this->random({2, 3});
  const auto both = [&](const Tensor& index, std::initializer_list<std::string_view> words) {
    EXPECT_TRUE(refuses([&] { (void)ops::take(x, index); }, words));
    EXPECT_TRUE(refuses([&] { ops::add_at(x, index, 1); }, words));
  };
  both(Tensor::from<std::int64_t>({0, 3}), {"index 3", "place 1", "[0, 3)"});
  both(Tensor::from<std::int64_t>({-1, 0}), {"index -1", "place 0"});
  both(Tensor::from<std::int64_t>({INT64_MIN, INT64_MAX}), {"place 0"});
  both(Tensor::from<std::int32_t>({0, 0}), {"i32"});
  both(Tensor::from<std::int64_t>({0, 0, 0}), {"[2, 3]", "[3]"});
  both(Tensor::arange(0, 4).slice(0, 0, 4, 2), {"not contiguous"});
  EXPECT_TRUE(refuses([&] { ops::add_at(x.transpose(), Tensor::zeros({3}, DType::i64), 1); },
                      {"add_at", "not contiguous"}));
}

}  // namespace
}  // namespace shoal
