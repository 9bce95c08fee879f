#include "shoal/optim/train_hogwild.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/autograd/modules.h"
#include "shoal/optim/evaluate.h"
#include "shoal/optim/train_single.h"
#include "shoal/runtime/base/error.h"
#include "support/strategies.h"

namespace shoal {

// Writes each rank's mark into what it was given, and answers with the sum it then sees.
SHOAL_ENTRY(mark_and_sum)
int mark_and_sum(Worker& worker) {
  const Tensor& w = worker.args.tensors.at(0);
  w.at<float>(worker.rank) = static_cast<float>(100 + worker.rank);
  return 0;
}

namespace optim {
namespace {

using autograd::Linear;
using autograd::ReLU;
using autograd::Sequential;

struct Variant {
  SharingStrategy strategy;
  StartMethod start_method;
};

class Hogwild : public testing::TestWithParam<Variant> {
 protected:
  [[nodiscard]] HogwildOptions options(int workers) const {
    HogwildOptions made;
    made.workers = workers;
    made.epochs = 30;
    made.batch_size = 8;
    made.sgd.lr = 0.1;
    made.strategy = GetParam().strategy;
    made.start_method = GetParam().start_method;
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Variants, Hogwild,
    testing::Values(Variant{SharingStrategy::file_descriptor, StartMethod::spawn},
                    Variant{SharingStrategy::file_descriptor, StartMethod::fork},
                    Variant{SharingStrategy::file_system, StartMethod::spawn},
                    Variant{SharingStrategy::file_system, StartMethod::fork},
                    Variant{SharingStrategy::file_descriptor, StartMethod::forkserver},
                    Variant{SharingStrategy::file_system, StartMethod::forkserver}),
    [](const auto& one) {
      return concat(to_string(one.param.strategy), "_", to_string(one.param.start_method));
    });

// Class k is where the k-th input is largest.
Dataset corners() {
  Generator generator(11);
  const Tensor inputs = Tensor::uniform({300, 3}, 0, 1, generator);
  const Tensor targets = Tensor::empty({300}, DType::i64);
  for (std::int64_t i = 0; i < 300; ++i) {
    const float* row = inputs.select(0, i).data<float>();
    targets.at<std::int64_t>(i) = std::max_element(row, row + 3) - row;
  }
  return {.inputs = inputs, .targets = targets};
}

std::shared_ptr<autograd::Module> small_model() {
  Generator generator(1);
  return std::make_shared<Sequential>(std::vector<std::shared_ptr<autograd::Module>>{
      std::make_shared<Linear>(3, 16, generator), std::make_shared<ReLU>(),
      std::make_shared<Linear>(16, 3, generator)});
}

TEST_P(Hogwild, TheParentHoldsWhatTheWorkersWrote) {
  const auto model = small_model();
  const Dataset data = corners();
  const double before = accuracy(*model, data);
  const TrainReport report = train_hogwild(*model, data, options(2));
  EXPECT_TRUE(model->is_shared());
  EXPECT_GT(accuracy(*model, data), std::max(before, 0.9));
  EXPECT_EQ(report.samples, 30 * 300);
  EXPECT_LT(report.epoch_losses.back(), report.epoch_losses.front());
}

TEST_P(Hogwild, OneWorkerWritesTheBitsThatASingleProcessDoes) {
  const auto alone = small_model(), hogwild = small_model();
  const Dataset data = corners();
  train_single(*alone, data, options(1));
  train_hogwild(*hogwild, data, options(1));
  const auto a = alone->state_dict(), b = hogwild->state_dict();
  for (const auto& [name, value] : a) EXPECT_TRUE(equal(value, b.at(name))) << name;
}

// The control: a model that nobody shared is shared on its way, never copied in silence.
TEST_P(Hogwild, AnUnsharedModelGivenToWorkersIsSharedNotCopied) {
  const test::UsingStrategy use(GetParam().strategy);
  const auto model = small_model();
  const Tensor w = model->flatten().values;
  ASSERT_FALSE(w.is_shared());
  launch(mark_and_sum, Message{.tensors = {w}},
         {.nprocs = 2, .start_method = GetParam().start_method})
      .join();
  EXPECT_TRUE(w.is_shared());
  EXPECT_EQ(w.at<float>(0), 100);
  EXPECT_EQ(w.at<float>(1), 101);
  EXPECT_EQ(model->state_dict().at("0.weight").at<float>(0, 1), 101) << "its views follow";
}

TEST_P(Hogwild, AWorkersErrorIsThrownHere) {
  Dataset data = corners();
  data.targets.at<std::int64_t>(7) = 3;  // there are three classes
  try {
    train_hogwild(*small_model(), data, options(2));
    FAIL() << "trained";
  } catch (const ProcessRaised& error) {
    EXPECT_NE(error.message().find("cross_entropy"), std::string::npos) << error.message();
  }
}

TEST_P(Hogwild, AnObserverSeesEveryEpochAndMayEndTheTraining) {
  int last = 0;
  train_hogwild(*small_model(), corners(), options(2),
                [&](const TrainProgress& progress) { last = progress.epochs_done; });
  EXPECT_EQ(last, 30);
  HogwildOptions endless = options(2);
  endless.epochs = 1'000'000;
  const TrainObserver stop = [](const TrainProgress&) { throw std::runtime_error("enough"); };
  EXPECT_THROW(train_hogwild(*small_model(), corners(), endless, stop), std::runtime_error);
}

TEST(HogwildOptions, ThatMeanNothingAreRefused) {
  HogwildOptions none;
  none.workers = 0;
  EXPECT_THROW(train_hogwild(*small_model(), corners(), none), Error);
  HogwildOptions no_epochs;
  no_epochs.epochs = 0;
  EXPECT_THROW(train_hogwild(*small_model(), corners(), no_epochs), Error);
}

}  // namespace
}  // namespace optim
}  // namespace shoal
