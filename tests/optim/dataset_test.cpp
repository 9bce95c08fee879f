#include "shoal/optim/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

TEST(EpochShare, TogetherWorkersVisitEachSampleOnce) {
  for (const int workers : {1, 2, 3, 7}) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < workers; ++rank) {
      const auto share = epoch_share(100, 5, 2, rank, workers);
      all.insert(all.end(), share.begin(), share.end());
    }
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), 100u);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
  }
}

TEST(EpochShare, DiffersByEpochAndSeedAndRepeatsOtherwise) {
  EXPECT_EQ(epoch_share(50, 1, 0, 0, 2), epoch_share(50, 1, 0, 0, 2));
  EXPECT_NE(epoch_share(50, 1, 0, 0, 2), epoch_share(50, 1, 1, 0, 2));
  EXPECT_NE(epoch_share(50, 1, 0, 0, 2), epoch_share(50, 7, 0, 0, 2));
}

TEST(EpochShare, MayBeEmptyForAWorkerTooMany) {
  EXPECT_TRUE(epoch_share(1, 0, 0, 1, 2).empty());
  EXPECT_THROW((void)epoch_share(1, 0, 0, 2, 2), Error);
}

TEST(Dataset, GathersAndScalesIntegers) {
  const Dataset data{.inputs = Tensor::from<std::uint8_t>({0, 1, 2, 3, 4, 5}).reshape({3, 2}),
                     .targets = Tensor::from<std::int64_t>({7, 8, 9}),
                     .scale = 0.5,
                     .shift = 1};
  const std::vector<std::int64_t> indices{2, 0};
  const Batch batch = gather(data, indices, DType::f64);
  EXPECT_TRUE(equal(batch.inputs, Tensor::from<double>({3, 3.5, 1, 1.5}).reshape({2, 2})));
  EXPECT_TRUE(equal(batch.targets, Tensor::from<std::int64_t>({9, 7})));
}

TEST(Dataset, RefusesWhatDoesNotFitTogether) {
  const Tensor three = Tensor::zeros({3, 2}), labels = Tensor::zeros({2}, DType::i64);
  EXPECT_THROW((Dataset{.inputs = three, .targets = labels}).validate(), Error);
  EXPECT_THROW((Dataset{.inputs = {}, .targets = labels}).validate(), Error);
  EXPECT_THROW(
      (Dataset{.inputs = three.slice(0, 0, 0), .targets = labels.slice(0, 0, 0)}).validate(),
      Error);
  EXPECT_EQ((Dataset{.inputs = three, .targets = labels}).first(2).first(5).size(), 2);
}

}  // namespace
}  // namespace shoal::optim
