#include <benchmark/benchmark.h>

#include "shoal/autograd/modules.h"
#include "shoal/optim/train_hogwild.h"

// Samples a second of Hogwild on random data, by number of workers; start and end included.
namespace shoal::optim {
namespace {

constexpr std::int64_t kSamples = 20'000, kPixels = 784, kClasses = 10;

void hogwild(benchmark::State& state) {
  Generator generator(1);
  const auto layers = [&] {
    using namespace autograd;
    return std::vector<std::shared_ptr<Module>>{std::make_shared<Linear>(kPixels, 128, generator),
                                                std::make_shared<ReLU>(),
                                                std::make_shared<Linear>(128, kClasses, generator)};
  };
  autograd::Sequential model(layers());
  const Tensor targets = Tensor::empty({kSamples}, DType::i64);
  for (std::int64_t& target : targets.span<std::int64_t>())
    target = static_cast<std::int64_t>(generator.below(kClasses));
  const Dataset data{.inputs = Tensor::uniform({kSamples, kPixels}, 0, 1, generator),
                     .targets = targets};
  HogwildOptions options;
  options.epochs = 2;
  options.batch_size = state.range(1);
  options.workers = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(train_hogwild(model, data, options));
  state.SetItemsProcessed(state.iterations() * options.epochs * kSamples);
}
BENCHMARK(hogwild)
    ->ArgNames({"workers", "batch"})
    ->ArgsProduct({{1, 2}, {32, 64}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Repetitions(5)
    ->ReportAggregatesOnly()
    ->ComputeStatistics("min", [](const std::vector<double>& v) {
      return *std::min_element(v.begin(), v.end());
    });

}  // namespace
}  // namespace shoal::optim

int main(int argc, char** argv) {
  shoal::child_main(argc, argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
