#include "rows.h"
#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/tensor/tensor.h"

// A new tensor in shared memory, one write to each of its pages, and its end.
namespace shoal::bench {
namespace {

void create_and_touch(std::int64_t nbytes, SharingStrategy strategy) {
  const Tensor tensor = Tensor::empty_shared({nbytes}, DType::u8, strategy);
  auto* bytes = static_cast<volatile std::uint8_t*>(tensor.data_ptr());
  for (std::int64_t at = 0; at < nbytes; at += kPageBytes) bytes[at] = 1;
}

void create(benchmark::State& state, std::int64_t nbytes, SharingStrategy strategy) {
  create_and_touch(nbytes, strategy);
  for (auto _ : state) create_and_touch(nbytes, strategy);
}

void create_cold(benchmark::State& state, std::int64_t nbytes, SharingStrategy strategy) {
  for (auto _ : state) {
    SegmentPool::instance().trim();
    time_iteration(state, [&] { create_and_touch(nbytes, strategy); });
  }
}

}  // namespace

void add_create_rows() {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    for (const Size size : kCreateSizes) {
      const std::string name = shoal_row("create", size.name, strategy);
      add_row(name, [=](auto& state) { create(state, size.nbytes, strategy); });
      add_timed_row(name + "/cold",
                    [=](auto& state) { create_cold(state, size.nbytes, strategy); });
    }
  }
}

}  // namespace shoal::bench
