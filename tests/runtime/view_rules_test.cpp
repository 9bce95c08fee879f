#include <gtest/gtest.h>

#include "support/tensors.h"

namespace shoal {
namespace {

using test::refuses;
using test::values_of;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

std::vector<std::int64_t> line(std::int64_t start, std::int64_t end, std::int64_t step = 1) {
  return values_of<std::int64_t>(Tensor::arange(0, 5).slice(0, start, end, step));
}

TEST(Slice, ClipsItsBoundsAsNumPyDoes) {
  using Values = std::vector<std::int64_t>;
  EXPECT_EQ(line(1, 3), (Values{1, 2}));
  EXPECT_EQ(line(-2, 5), (Values{3, 4}));
  EXPECT_EQ(line(0, -1), (Values{0, 1, 2, 3}));
  EXPECT_EQ(line(INT64_MIN, INT64_MAX), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(line(0, 5, 2), (Values{0, 2, 4}));
  EXPECT_EQ(line(1, 5, 3), (Values{1, 4}));
  EXPECT_EQ(line(0, 5, INT64_MAX), (Values{0}));
  EXPECT_EQ(line(3, 1), Values{});
  EXPECT_EQ(line(5, 9), Values{});
}

TEST(Slice, RefusesOtherSteps) {
  const Tensor tensor = Tensor::zeros({3});
  EXPECT_TRUE(refuses([&] { (void)tensor.slice(0, 0, 3, 0); }, {"slice", "step 0"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.slice(0, 0, 3, -1); }, {"step -1"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.slice(1, 0, 3); }, {"slice", "axis 1"}));
}

TEST(Select, RefusesWhatIsNotThere) {
  const Tensor tensor = Tensor::zeros({3, 0});
  EXPECT_TRUE(refuses([&] { (void)tensor.select(0, 3); }, {"index 3", "axis 0", "[3, 0]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.select(0, -4); }, {"index -4"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.select(1, 0); }, {"axis 1"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.select(2, 0); }, {"select", "axis 2"}));
}

TEST(Permute, OrdersAllAxes) {
  const Tensor tensor = Tensor::arange(0, 24).reshape({2, 3, 4});
  const Tensor turned = tensor.permute({2, 0, -2});
  EXPECT_EQ(turned.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(turned.at<std::int64_t>(3, 1, 2), 23);
  EXPECT_EQ(turned.at<std::int64_t>(1, 0, 2), 9);
  EXPECT_TRUE(refuses([&] { (void)tensor.permute({0, 1}); }, {"2 axes", "[2, 3, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.permute({0, 1, 1}); }, {"axis 1", "twice"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.permute({0, 2, -1}); }, {"twice"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.permute({0, 1, 3}); }, {"axis 3"}));
}

TEST(Expand, RefusesWhatIsNotARepetition) {
  const Tensor tensor = Tensor::zeros({2, 1});
  EXPECT_EQ(tensor.expand({4, 2, 3}).strides(), (Strides{0, 1, 0}));
  EXPECT_TRUE(refuses([&] { (void)tensor.expand({3, 1}); }, {"[2, 1]", "[3, 1]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.expand({1}); }, {"more axes"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.expand({2, -1}); }, {"negative"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.expand({kHuge, kHuge, 2, 1}); }, {"too many"}));
}

TEST(Reshape, RefusesOtherNumbersOfElements) {
  const Tensor tensor = Tensor::zeros({2, 3});
  EXPECT_TRUE(refuses([&] { (void)tensor.reshape({4}); }, {"reshape", "[2, 3]", "[4]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.reshape({-1, -1}); }, {"more than one"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.reshape({-1, 4}); }, {"[2, 3]", "[-1, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.reshape({-1, 0}); }));
  EXPECT_TRUE(refuses([&] { (void)tensor.reshape({-2, -3}); }, {"negative"}));
  EXPECT_TRUE(refuses([&] { (void)Tensor::zeros({0}).reshape({0, -1}); }));
  EXPECT_EQ(Tensor::zeros({0, 4}).reshape({-1, 2}).shape(), (Shape{0, 2}));
}

TEST(View, RefusesToCopy) {
  const Tensor tensor = Tensor::zeros({2, 3});
  EXPECT_EQ(tensor.view({3, -1}).storage(), tensor.storage());
  EXPECT_TRUE(refuses([&] { (void)tensor.transpose().view({6}); }, {"view", "[6]", "reshape"}));
  EXPECT_EQ(tensor.transpose().reshape({6}).numel(), 6);
}

TEST(Over, AcceptsWhatLiesWithin) {
  const auto storage = Storage::allocate(10 * sizeof(float));
  const auto accepts = [&](const Shape& shape, const Strides& strides, std::int64_t offset) {
    return Tensor::over(storage, DType::f32, shape, strides, offset).shape() == shape;
  };
  EXPECT_TRUE(accepts({10}, {1}, 0));
  EXPECT_TRUE(accepts({2, 2}, {5, 4}, 0));
  EXPECT_TRUE(accepts({5}, {2}, 1));
  EXPECT_TRUE(accepts({1000}, {0}, 9));
  EXPECT_TRUE(accepts({}, {}, 9));
  EXPECT_TRUE(accepts({0}, {1}, 10));
}

TEST(Over, RefusesHostileDescriptions) {
  const auto storage = Storage::allocate(10 * sizeof(float) + 3);
  const auto rejects = [&](const Shape& shape, const Strides& strides, std::int64_t offset) {
    return refuses([&] { (void)Tensor::over(storage, DType::f32, shape, strides, offset); });
  };
  EXPECT_TRUE(rejects({11}, {1}, 0));
  EXPECT_TRUE(rejects({10}, {1}, 1));
  EXPECT_TRUE(rejects({}, {}, 10));
  EXPECT_TRUE(rejects({}, {}, -1));
  EXPECT_TRUE(rejects({2}, {-1}, 5));
  EXPECT_TRUE(rejects({1}, {INT64_MIN}, 0));
  EXPECT_TRUE(rejects({-1}, {1}, 0));
  EXPECT_TRUE(rejects({2}, {1, 1}, 0));
  EXPECT_TRUE(rejects({2}, {INT64_MAX}, 1));
  EXPECT_TRUE(rejects({5}, {kHuge}, 0));
  EXPECT_TRUE(rejects({3, 3}, {kHuge, kHuge}, 0));
  EXPECT_TRUE(rejects({kHuge, 4}, {0, 0}, 0));
  EXPECT_TRUE(rejects({kHuge}, {0}, 0));
  EXPECT_TRUE(rejects({1}, {1}, INT64_MAX));
  EXPECT_TRUE(rejects({0}, {1}, 11));
  EXPECT_TRUE(refuses([] { (void)Tensor::over(nullptr, DType::f32, {}, {}); }));
}

TEST(Over, RefusesAnUnknownDtype) {
  const auto storage = Storage::allocate(8);
  EXPECT_TRUE(refuses([&] { (void)Tensor::over(storage, static_cast<DType>(200), {1}, {1}); }));
}

TEST(Over, CannotBeMadeToOverflowByLaterViews) {
  const auto storage = Storage::allocate(8);
  const Tensor none = Tensor::over(storage, DType::f32, {0, 5, kHuge}, {1, kHuge, kHuge}, 1);
  EXPECT_EQ(none.select(1, 4).select(1, kHuge - 1).numel(), 0);
  EXPECT_EQ(none.slice(1, 2, 5, 2).slice(2, 5, INT64_MAX, 7).numel(), 0);
  const Tensor one = Tensor::over(storage, DType::f32, {1}, {INT64_MAX}, 1);
  EXPECT_EQ(one.slice(0, 1, 1).numel(), 0);
}

TEST(EmptyViews, StayWithinTheirStorage) {
  const Tensor tensor = Tensor::zeros({2, 3});
  const Tensor none = tensor.slice(0, 2, 2).slice(1, 3, 3);
  EXPECT_EQ(none.offset(), 0);
  EXPECT_EQ(none.data_ptr(), tensor.data_ptr());
  EXPECT_EQ(Tensor::zeros({5, 0}).select(0, 4).data_ptr(), nullptr);
}

TEST(EmptyViews, MayHaveHugeAxes) {
  const Tensor none = Tensor::empty({0, kHuge, kHuge, kHuge});
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.select(1, kHuge - 1).select(2, kHuge - 1).numel(), 0);
  EXPECT_EQ(none.reshape({kHuge, kHuge, 0}).clone().numel(), 0);
}

}  // namespace
}  // namespace shoal
