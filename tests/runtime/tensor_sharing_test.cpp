#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/shm/sharing_strategy.h"
#include "support/tensors.h"

namespace shoal {
namespace {

using test::refuses;
using test::values_of;

// Moving a tensor's bytes into shared memory, within one process.
class Sharing : public testing::TestWithParam<SharingStrategy> {};
INSTANTIATE_TEST_SUITE_P(, Sharing, testing::ValuesIn(get_all_sharing_strategies()),
                         [](const auto& strategy) {
                           return std::string(to_string(strategy.param));
                         });

TEST_P(Sharing, KeepsValuesAndMovesTheBytes) {
  const Tensor tensor = Tensor::arange(0, 1000);
  EXPECT_FALSE(tensor.is_shared());
  EXPECT_EQ(tensor.storage()->block(), nullptr);
  const void* before = tensor.data_ptr();
  EXPECT_EQ(&tensor.share_memory(GetParam()), &tensor);
  EXPECT_TRUE(tensor.is_shared());
  EXPECT_NE(tensor.data_ptr(), before);
  ASSERT_NE(tensor.storage()->block(), nullptr);
  EXPECT_EQ(tensor.storage()->block()->strategy(), GetParam());
  EXPECT_TRUE(equal(tensor, Tensor::arange(0, 1000)));
}

TEST_P(Sharing, IsFollowedByEveryView) {
  const Tensor tensor = Tensor::arange(0, 12).reshape({3, 4});
  const Tensor column = tensor.select(1, 2), turned = tensor.transpose();
  column.share_memory(GetParam());
  EXPECT_TRUE(tensor.is_shared() && turned.is_shared());
  EXPECT_EQ(tensor.storage(), column.storage());
  tensor.at<std::int64_t>(1, 2) = 100;
  EXPECT_EQ(values_of<std::int64_t>(column), (std::vector<std::int64_t>{2, 100, 10}));
  EXPECT_EQ(turned.at<std::int64_t>(2, 1), 100);
}

TEST_P(Sharing, HappensOnceWhateverTheStrategy) {
  const Tensor tensor = Tensor::ones({5});
  tensor.share_memory(GetParam());
  const void* where = tensor.data_ptr();
  for (const SharingStrategy strategy : get_all_sharing_strategies()) tensor.share_memory(strategy);
  EXPECT_EQ(tensor.data_ptr(), where);
  EXPECT_EQ(tensor.storage()->block()->strategy(), GetParam());
}

TEST_P(Sharing, OfNothingTakesNoMemory) {
  const Tensor none = Tensor::zeros({0, 3});
  none.share_memory(GetParam());
  EXPECT_TRUE(none.is_shared());
  EXPECT_EQ(none.storage()->block(), nullptr);
  const Tensor made = Tensor::zeros_shared({0}, DType::f32, GetParam());
  EXPECT_TRUE(made.is_shared());
  EXPECT_EQ(made.storage()->block(), nullptr);
}

TEST_P(Sharing, StartsZeroedAlsoAfterUse) {
  for (int round = 0; round < 3; ++round) {
    const Tensor tensor = Tensor::zeros_shared({10'000}, DType::f64, GetParam());
    EXPECT_TRUE(tensor.is_shared());
    EXPECT_TRUE(equal(tensor, Tensor::zeros({10'000}, DType::f64)));
    tensor.fill_(1);
  }
}

TEST_P(Sharing, IsNotInheritedByCopies) {
  const Tensor shared = Tensor::zeros_shared({2, 2}, DType::f32, GetParam());
  EXPECT_FALSE(shared.clone().is_shared());
  EXPECT_FALSE(shared.to(DType::f64).is_shared());
  EXPECT_FALSE(shared.transpose().contiguous().is_shared());
  EXPECT_TRUE(shared.contiguous().is_shared());
}

TEST_P(Sharing, OutlivesTheTensorThatWasShared) {
  Tensor view;
  {
    const Tensor tensor = Tensor::arange(0, 4);
    tensor.share_memory(GetParam());
    view = tensor.slice(0, 2, 4);
  }
  EXPECT_EQ(values_of<std::int64_t>(view), (std::vector<std::int64_t>{2, 3}));
}

// By name, since other processes share /dev/shm. One name serves many tensors.
TEST(SharingByName, LeavesNoNameBehind) {
  constexpr auto kNamed = SharingStrategy::file_system;
  const auto path = [](const Tensor& tensor) {
    return std::filesystem::path("/dev/shm") / tensor.storage()->block()->segment_name();
  };
  Tensor tensor = Tensor::ones({5}), made = Tensor::zeros_shared({5}, DType::f32, kNamed);
  tensor.share_memory(kNamed);
  Tensor view = tensor.slice(0, 1, 2);
  const auto file = path(tensor);
  EXPECT_EQ(path(made), file);
  EXPECT_TRUE(exists(file));
  tensor = made = Tensor();
  SegmentPool::instance().trim();
  EXPECT_TRUE(exists(file)) << "a view holds it";
  view = Tensor();
  SegmentPool::instance().trim();
  EXPECT_FALSE(exists(file));
}

TEST_P(Sharing, IsTheDefaultWhereSet) {
  const SharingStrategy before = get_sharing_strategy();
  set_sharing_strategy(GetParam());
  const Tensor tensor = Tensor::ones({1}), made = Tensor::zeros_shared({1});
  tensor.share_memory();
  set_sharing_strategy(before);
  EXPECT_EQ(tensor.storage()->block()->strategy(), GetParam());
  EXPECT_EQ(made.storage()->block()->strategy(), GetParam());
}

TEST_P(Sharing, OfMoreThanAnyFileCanHoldIsOneClearError) {
  EXPECT_TRUE(refuses([] { (void)Tensor::zeros_shared({INT64_MAX / 8}, DType::f64, GetParam()); },
                      {"EiB"}, ErrorKind::no_space));
}

}  // namespace
}  // namespace shoal
