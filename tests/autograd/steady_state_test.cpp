#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>

#include "shoal/autograd/losses.h"
#include "shoal/autograd/module_spec.h"
#include "shoal/optim/sgd.h"

// What a training step takes from the system once it has taken what it needs: nothing. The heap is
// counted at malloc itself, below every operator new.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define SHOAL_COUNTS_MALLOC 0
#else
#define SHOAL_COUNTS_MALLOC 1
#endif

#if SHOAL_COUNTS_MALLOC
namespace {

std::int64_t minor_faults() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_minflt;
}

std::atomic<std::int64_t> mallocs{0};  // relaxed: one thread counts and reads
void count() { mallocs.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

// The names that glibc keeps for those who replace these.
extern "C" {
void* __libc_malloc(std::size_t);                 // NOLINT
void* __libc_calloc(std::size_t, std::size_t);    // NOLINT
void* __libc_realloc(void*, std::size_t);         // NOLINT
void* __libc_memalign(std::size_t, std::size_t);  // NOLINT

void* malloc(std::size_t nbytes) {
  count();
  return __libc_malloc(nbytes);
}
void* calloc(std::size_t n, std::size_t nbytes) {
  count();
  return __libc_calloc(n, nbytes);
}
void* realloc(void* block, std::size_t nbytes) {
  count();
  return __libc_realloc(block, nbytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t nbytes) {
  count();
  return __libc_memalign(alignment, nbytes);
}
}
#endif

namespace shoal::autograd {
namespace {

struct Model {
  const char* name;
  const char* spec;
  Shape inputs;
  std::int64_t indices;  // 0: inputs are values, else indices below this
};

std::ostream& operator<<(std::ostream& out, const Model& model) { return out << model.name; }

class SteadyState : public testing::TestWithParam<Model> {};

TEST_P(SteadyState, TakesNoHeapAndNoPages) {
#if SHOAL_COUNTS_MALLOC
  const Model& model = GetParam();
  Generator generator(1);
  const auto module = make_module(model.spec, generator);
  Tensor inputs = Tensor::uniform(model.inputs, 0, 1, generator);
  if (model.indices > 0) {
    inputs = Tensor::empty(model.inputs, DType::i64);
    for (std::int64_t& i : inputs.span<std::int64_t>())
      i = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(model.indices)));
  }
  const Tensor targets = Tensor::zeros({model.inputs[0]}, DType::i64);
  const Variable x(inputs);
  optim::Sgd sgd(module->parameters(), {.lr = 0.01, .momentum = 0.5});
  const auto step = [&] {
    sgd.zero_grad();
    cross_entropy(module->forward(x), targets).backward();
    sgd.step();
  };
  for (int i = 0; i < 20; ++i) step();
  const std::int64_t heap_before = mallocs.load(std::memory_order_relaxed);
  ASSERT_GT(heap_before, 0) << "nothing is counted";
  const std::int64_t faults_before = minor_faults();
  for (int i = 0; i < 50; ++i) step();
  EXPECT_EQ(mallocs.load(std::memory_order_relaxed) - heap_before, 0);
  EXPECT_EQ(minor_faults() - faults_before, 0);
#else
  GTEST_SKIP() << "sanitizers and unoptimised builds have a heap of their own ways";
#endif
}

INSTANTIATE_TEST_SUITE_P(
    Models, SteadyState,
    testing::Values(
        Model{"Mlp", "Sequential(Linear(100, 256), ReLU(), Linear(256, 10))", {32, 100}, 0},
        Model{"OneSample", "Sequential(Linear(100, 256), ReLU(), Linear(256, 10))", {1, 100}, 0},
        Model{"Tall", "Sequential(Linear(784, 128), Tanh(), Linear(128, 10))", {64, 784}, 0},
        Model{"Cnn",
              "Sequential(Conv2d(1, 10, 5), MaxPool2d(2), ReLU(), Conv2d(10, 20, 5), "
              "Dropout2d(0.5), MaxPool2d(2), ReLU(), Flatten(), Linear(320, 50), ReLU(), "
              "Dropout(0.5), Linear(50, 10))",
              {64, 1, 28, 28},
              0},
        Model{"SparseBags",
              "Sequential(EmbeddingBag(10000, 64, 1), Linear(64, 10))",
              {32, 10},
              10'000},
        Model{"Embedding",
              "Sequential(Embedding(500, 16, 1), Flatten(), Linear(160, 10))",
              {32, 10},
              500}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace shoal::autograd
