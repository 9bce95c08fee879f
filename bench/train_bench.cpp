#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "shoal/shoal.h"

// What a training step costs: one row for each model and batch, named as in peers/train_torch.py:
//
//   <who>/<model>/<batch>/step      shoal/mlp-784-128-10/b64/step
//
// A step is: gradients to zero, forward, cross entropy, backward, SGD. Rows of `raw` are what the
// arithmetic alone would take at the rate of a large product of matrices. Hogwild's rows are whole
// trainings on random data, start and end of the workers included.
namespace shoal::optim {
namespace {

using autograd::Variable;

Tensor random_classes(std::int64_t n, std::int64_t classes, Generator& generator) {
  Tensor targets = Tensor::empty({n}, DType::i64);
  for (std::int64_t& target : targets.span<std::int64_t>())
    target = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(classes)));
  return targets;
}

// A model and what it is trained on.
struct Work {
  std::string name;
  std::string spec;
  Tensor inputs;
  Tensor targets;
  double momentum = 0;
  double flop = 0;  // of the products of a step
};

void train(benchmark::State& state, const Work& work) {
  Generator generator(1);
  const auto model = autograd::make_module(work.spec, generator);
  Sgd sgd(model->parameters(), {.lr = 0.01, .momentum = work.momentum});
  const Variable x(work.inputs);
  for (auto _ : state) {
    sgd.zero_grad();
    const Variable loss = autograd::cross_entropy(model->forward(x), work.targets);
    loss.backward();
    sgd.step();
    benchmark::DoNotOptimize(loss.value().data_ptr());
  }
}

// The time of `flop` operations at the rate of a product of two matrices of 1024 by 1024.
void arithmetic(benchmark::State& state, double flop) {
  constexpr std::int64_t kSize = 1024;
  Generator generator(2);
  const Tensor a = Tensor::uniform({kSize, kSize}, -1, 1, generator);
  const Tensor b = Tensor::uniform({kSize, kSize}, -1, 1, generator);
  const Tensor c = Tensor::empty({kSize, kSize});
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    ops::addmm(c, a, b, 0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count() * flop / (2.0 * kSize * kSize * kSize));
  }
}

// Forward and the parameters' gradients for each layer, and the inputs' for all but the first.
double mlp_flop(std::int64_t in, std::int64_t hidden, std::int64_t out, std::int64_t batch) {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(2 * in * hidden + 3 * hidden * out);
}

std::vector<Work> all_work() {
  Generator generator(3);
  std::vector<Work> all;
  const auto mlp = [&](std::int64_t in, std::int64_t hidden, std::int64_t out, std::int64_t batch) {
    all.push_back({.name = concat("mlp-", in, "-", hidden, "-", out, "/b", batch),
                   .spec = concat("Sequential(Linear(", in, ", ", hidden, "), ReLU(), Linear(",
                                  hidden, ", ", out, "))"),
                   .inputs = Tensor::uniform({batch, in}, -1, 1, generator),
                   .targets = random_classes(batch, out, generator),
                   .flop = mlp_flop(in, hidden, out, batch)});
  };
  mlp(100, 256, 10, 1);
  mlp(100, 256, 10, 32);
  mlp(784, 128, 10, 64);
  // PyTorch's example of Hogwild.
  all.push_back(
      {.name = "cnn/b64",
       .spec = "Sequential(Conv2d(1, 10, 5), MaxPool2d(2), ReLU(), Conv2d(10, 20, 5), "
               "Dropout2d(0.5), MaxPool2d(2), ReLU(), Flatten(), Linear(320, 50), ReLU(), "
               "Dropout(0.5), Linear(50, 10))",
       .inputs = Tensor::uniform({64, 1, 28, 28}, -1, 1, generator),
       .targets = random_classes(64, 10, generator),
       .momentum = 0.5,
       .flop = 2.0 * 64 * (2.0 * 10 * 25 * 576 + 3.0 * 20 * 250 * 64 + 3.0 * 320 * 50 + 3 * 500)});
  Tensor bags = random_classes(32 * 10, 100'000, generator).reshape({32, 10});
  all.push_back({.name = "embedding-100000-64-10/b32",
                 .spec = "Sequential(EmbeddingBag(100000, 64, 1), Linear(64, 10))",
                 .inputs = bags,
                 .targets = random_classes(32, 10, generator),
                 .flop = 2.0 * 32 * 3 * 640});
  return all;
}

void hogwild(benchmark::State& state, int workers, std::int64_t batch) {
  constexpr std::int64_t kSamples = 20'000;
  Generator generator(1);
  const auto model =
      autograd::make_module("Sequential(Linear(784, 128), ReLU(), Linear(128, 10))", generator);
  const Dataset data{.inputs = Tensor::uniform({kSamples, 784}, 0, 1, generator),
                     .targets = random_classes(kSamples, 10, generator)};
  HogwildOptions options;
  options.epochs = 2;
  options.batch_size = batch;
  options.workers = workers;
  for (auto _ : state) benchmark::DoNotOptimize(train_hogwild(*model, data, options));
  state.SetItemsProcessed(state.iterations() * options.epochs * kSamples);
}

void register_rows() {
  for (const Work& work : all_work()) {
    benchmark::RegisterBenchmark(concat("shoal/", work.name, "/step").c_str(),
                                 [work](benchmark::State& state) { train(state, work); })
        ->UseRealTime();
    benchmark::RegisterBenchmark(
        concat("raw/", work.name).c_str(),
        [flop = work.flop](benchmark::State& state) { arithmetic(state, flop); })
        ->UseManualTime()
        ->Iterations(20);
  }
  for (const int workers : {1, 2}) {
    for (const std::int64_t batch : {32, 64}) {
      benchmark::RegisterBenchmark(
          concat("shoal/hogwild-mlp-784-128-10/b", batch, "/workers", workers).c_str(),
          [=](benchmark::State& state) { hogwild(state, workers, batch); })
          ->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace shoal::optim

int main(int argc, char** argv) {
  shoal::child_main(argc, argv);
  shoal::optim::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("cpu_instruction_set", std::string(shoal::cpu_instruction_set()));
  benchmark::RunSpecifiedBenchmarks();
}
