#include "shoal/optim/evaluate.h"

#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/module_spec.h"
#include "shoal/autograd/modules.h"
#include "shoal/optim/train_hogwild.h"
#include "shoal/optim/train_single.h"

namespace shoal::optim {
namespace {

// Which of its three inputs is 1.
Dataset one_hot() {
  const Tensor inputs = Tensor::zeros({30, 3}), targets = Tensor::empty({30}, DType::i64);
  for (std::int64_t i = 0; i < 30; ++i) {
    inputs.at<float>(i, i % 3) = 1;
    targets.at<std::int64_t>(i) = i % 3;
  }
  return {.inputs = inputs, .targets = targets};
}

TEST(Accuracy, IsOfTheModuleInUseAndLeavesItAsItWas) {
  Generator generator(1);
  const auto frozen = std::make_shared<autograd::Dropout>(0.9, generator);
  autograd::Sequential model({frozen, std::make_shared<autograd::Dropout>(0.9, generator)});
  frozen->eval();
  EXPECT_EQ(accuracy(model, one_hot()), 1);
  EXPECT_FALSE(frozen->is_training());
  EXPECT_TRUE(model.is_training());
}

TEST(Accuracy, RefusesScoresForMoreThanTheSamples) {
  autograd::Sequential model({});
  Dataset data = one_hot();
  data.inputs = Tensor::zeros({30, 4, 2});
  expect_error(ErrorKind::invalid_argument, {"accuracy", "120", "30"},
               [&] { (void)accuracy(model, data); });
}

// Indices stay indices, in every way of training.
TEST(Embeddings, AreTrainedFromIntegerInputs) {
  const Tensor inputs = Tensor::empty({60, 2}, DType::i64);
  const Tensor targets = Tensor::empty({60}, DType::i64);
  for (std::int64_t i = 0; i < 60; ++i) {
    inputs.at<std::int64_t>(i, 0) = inputs.at<std::int64_t>(i, 1) = i % 6;
    targets.at<std::int64_t>(i) = i % 6 % 2;
  }
  const Dataset data{.inputs = inputs, .targets = targets};
  for (const bool processes : {false, true}) {
    Generator generator(2);
    const auto model =
        autograd::make_module("Sequential(EmbeddingBag(6, 4, 1), Linear(4, 2))", generator);
    HogwildOptions options;
    options.epochs = 30;
    options.batch_size = 4;
    options.sgd.lr = 0.5;
    options.workers = 2;
    if (processes) {
      (void)train_hogwild(*model, data, options);
    } else {
      (void)train_single(*model, data, options);
    }
    EXPECT_EQ(accuracy(*model, data), 1) << processes;
  }
}

}  // namespace
}  // namespace shoal::optim
