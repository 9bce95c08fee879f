#include "rows.h"
#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/tensor/tensor.h"

// The move of a private tensor into shared memory. The tensor itself, made before, does not count.
namespace shoal::bench {
namespace {

enum class Memory { recycled, cold };

void share(benchmark::State& state, std::int64_t nbytes, SharingStrategy strategy, Memory memory) {
  (void)Tensor::full_shared({nbytes}, 1, DType::u8, strategy);
  for (auto _ : state) {
    if (memory == Memory::cold) SegmentPool::instance().trim();
    const Tensor tensor = Tensor::full({nbytes}, 1, DType::u8);
    time_iteration(state, [&] { tensor.share_memory(strategy); });
  }
}

}  // namespace

void add_share_rows() {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    for (const Size size : kShareSizes) {
      const std::string name = shoal_row("share", size.name, strategy);
      add_timed_row(name,
                    [=](auto& state) { share(state, size.nbytes, strategy, Memory::recycled); });
      add_timed_row(name + "/cold",
                    [=](auto& state) { share(state, size.nbytes, strategy, Memory::cold); });
    }
  }
}

}  // namespace shoal::bench
