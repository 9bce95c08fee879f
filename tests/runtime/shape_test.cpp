#include "shoal/runtime/tensor/shape.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "support/tensors.h"

namespace shoal {
namespace {

using test::refuses;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

TEST(Shape, HoldsUpToEightAxes) {
  EXPECT_EQ((Shape{1, 2, 3, 4, 5, 6, 7, 8}).rank(), kMaxRank);
  EXPECT_TRUE(refuses([] { Shape({1, 2, 3, 4, 5, 6, 7, 8, 9}); }, {"at most 8 axes"}));
  EXPECT_TRUE(refuses([] { (void)Shape(std::vector<std::int64_t>(100, 1)); }));
  EXPECT_TRUE(refuses([] { (void)Shape::filled(9, 1); }));
  Shape full = Shape::filled(8, 1);
  EXPECT_TRUE(refuses([&] { full.push_back(1); }));
  EXPECT_EQ(full, Shape::filled(8, 1)) << "a refused growth changes nothing";
}

TEST(Shape, InsertsAndErasesAxes) {
  Shape shape{2, 4};
  shape.insert(1, 3);
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
  shape.insert(0, 1);
  shape.push_back(5);
  EXPECT_EQ(shape, (Shape{1, 2, 3, 4, 5}));
  shape.erase(4);
  shape.erase(0);
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
}

TEST(Shape, ComparesOnlyTheAxesItHas) {
  Shape shape{2, 7};
  shape.erase(1);
  EXPECT_EQ(shape, Shape{2});
  EXPECT_NE(shape, (Shape{2, 1}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
}

TEST(Shape, PrintsAsAList) {
  std::ostringstream out;
  out << Shape{} << Shape{4} << Shape{2, -1};
  EXPECT_EQ(out.str(), "[][4][2, -1]");
}

TEST(Numel, MultipliesTheSizes) {
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({7}), 7);
  EXPECT_EQ(numel({2, 3, 4}), 24);
  EXPECT_EQ(numel({2, 0, 4}), 0);
}

TEST(Numel, RefusesWhatCannotBeCounted) {
  EXPECT_TRUE(refuses([] { (void)numel({2, -1}); }, {"[2, -1]", "negative"}));
  EXPECT_TRUE(refuses([] { (void)numel({0, -1}); }, {"negative"}));
  EXPECT_TRUE(refuses([] { (void)numel({INT64_MIN}); }, {"negative"}));
  EXPECT_TRUE(refuses([] { (void)numel({kHuge, 4}); }, {"too many"}));
  EXPECT_TRUE(refuses([] { (void)numel({std::int64_t{1} << 32, std::int64_t{1} << 32}); }));
  EXPECT_TRUE(refuses([] { (void)numel({INT64_MAX / 8 + 1}); }, {"too many"}));
  EXPECT_EQ(numel({INT64_MAX / 8}), INT64_MAX / 8);
}

TEST(Numel, IsZeroWhereverAnAxisIsEmpty) {
  EXPECT_EQ(numel({0, kHuge, kHuge}), 0);
  EXPECT_EQ(numel({kHuge, kHuge, 0}), 0);
}

TEST(ContiguousStrides, AreRowMajor) {
  EXPECT_EQ(contiguous_strides({}), Strides{});
  EXPECT_EQ(contiguous_strides({5}), Strides{1});
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 1, 4}), (Strides{4, 4, 1}));
}

TEST(ContiguousStrides, DoNotOverflowForHugeEmptyShapes) {
  EXPECT_EQ(contiguous_strides({0, kHuge, kHuge, kHuge}), Strides::filled(4, 1));
  EXPECT_EQ(contiguous_strides({kHuge, kHuge, 0}), Strides::filled(3, 1));
}

TEST(BroadcastShapes, FollowsNumPy) {
  const auto both = [](const Shape& a, const Shape& b) {
    const Shape result = broadcast_shapes(a, b, "op");
    EXPECT_EQ(result, broadcast_shapes(b, a, "op"));
    return result;
  };
  EXPECT_EQ(both({}, {}), Shape{});
  EXPECT_EQ(both({}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(both({3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(both({2, 1}, {3}), (Shape{2, 3}));
  EXPECT_EQ(both({4, 1, 3}, {1, 5, 1}), (Shape{4, 5, 3}));
  EXPECT_EQ(both({1}, {0}), Shape{0});
  EXPECT_EQ(both({2, 0}, {2, 1}), (Shape{2, 0}));
}

TEST(BroadcastShapes, NamesTheCallAndBothShapes) {
  EXPECT_TRUE(refuses([] { (void)broadcast_shapes({2, 3}, {2}, "op"); }, {"op", "[2, 3]", "[2]"}));
  EXPECT_TRUE(refuses([] { (void)broadcast_shapes({0}, {3}, "op"); }, {"[0]", "[3]"}));
}

TEST(NormalizeAxis, CountsNegativeAxesFromTheEnd) {
  EXPECT_EQ(normalize_axis(0, 3, "op"), 0);
  EXPECT_EQ(normalize_axis(-1, 3, "op"), 2);
  EXPECT_EQ(normalize_axis(-3, 3, "op"), 0);
  EXPECT_TRUE(refuses([] { (void)normalize_axis(3, 3, "op"); }, {"op", "axis 3", "3 axes"}));
  EXPECT_TRUE(refuses([] { (void)normalize_axis(-4, 3, "op"); }));
  EXPECT_TRUE(refuses([] { (void)normalize_axis(0, 0, "op"); }));
}

}  // namespace
}  // namespace shoal
