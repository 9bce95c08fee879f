#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "shoal/autograd/losses.h"
#include "shoal/autograd/module_spec.h"
#include "shoal/optim/sgd.h"

// Threads that train a model each share nothing but the code: they need no lock, and each gets what
// it gets alone.
namespace shoal::autograd {
namespace {

struct Work {
  const char* spec;
  Shape inputs;
  bool of_indices;
};

const std::array kWork{
    Work{"Sequential(Linear(20, 40), ReLU(), Dropout(0.3), Linear(40, 10))", {16, 20}, false},
    Work{"Sequential(Conv2d(1, 4, 3), MaxPool2d(2), ReLU(), Flatten(), Linear(36, 10))",
         {8, 1, 8, 8},
         false},
    Work{"Sequential(EmbeddingBag(50, 8, 1), Tanh(), Linear(8, 10))", {16, 4}, true},
};

// The parameters after some steps, one after the other.
std::vector<Tensor> train(const Work& work, std::uint64_t seed) {
  Generator generator(seed);
  const auto model = make_module(work.spec, generator);
  optim::Sgd sgd(model->parameters(), {.lr = 0.05, .momentum = 0.9});
  Tensor inputs = Tensor::uniform(work.inputs, 0, 1, generator);
  if (work.of_indices) {
    inputs = Tensor::empty(work.inputs, DType::i64);
    for (std::int64_t& i : inputs.span<std::int64_t>())
      i = static_cast<std::int64_t>(generator.below(50));
  }
  const Tensor targets = Tensor::empty({work.inputs[0]}, DType::i64);
  for (std::int64_t& t : targets.span<std::int64_t>())
    t = static_cast<std::int64_t>(generator.below(10));
  for (int i = 0; i < 20; ++i) {
    sgd.zero_grad();
    cross_entropy(model->forward(Variable(inputs)), targets).backward();
    sgd.step();
  }
  std::vector<Tensor> values;
  for (const Variable& parameter : model->parameters()) values.push_back(parameter.value());
  return values;
}

TEST(Threads, TrainModelsOfTheirOwnAsEachWouldAlone) {
  constexpr std::size_t kThreads = 6;
  std::array<std::vector<Tensor>, kThreads> results;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { results[i] = train(kWork[i % kWork.size()], i); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kThreads; ++i) {
    const auto alone = train(kWork[i % kWork.size()], i);
    ASSERT_EQ(results[i].size(), alone.size());
    for (std::size_t p = 0; p < alone.size(); ++p)
      EXPECT_TRUE(equal(results[i][p], alone[p])) << kWork[i % kWork.size()].spec;
  }
}

}  // namespace
}  // namespace shoal::autograd
