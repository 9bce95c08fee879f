#include <cstring>
#include <vector>

#include "rows.h"
#include "shoal/runtime/ipc/message.h"
#include "shoal/runtime/process/launch.h"

// Frames from a camera: every tensor is new, filled, sent, read by another process, and dropped.
// In time for each tensor; beside it the time to copy as much within one process.
namespace shoal::bench {
namespace {

constexpr Size kFrame = k1MiB;

// Enough for neither process to wait for the other, and few enough to stay in the cache.
constexpr int kInFlight = 8;

// Every cache line once.
std::uint64_t read_all(const Tensor& frame) {
  std::uint64_t sum = 0;
  const auto* bytes = static_cast<const std::byte*>(frame.data_ptr());
  for (std::int64_t at = 0; at < kFrame.nbytes; at += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    sum += word;
  }
  return sum;
}

void stream(benchmark::State& state, SharingStrategy strategy) {
  TensorQueue queue(kInFlight);
  ProcessContext consumer = launch_forked([&](Worker&) {
    while (const auto frame = queue.get()) benchmark::DoNotOptimize(read_all(*frame));
    return 0;
  });
  const std::vector<std::uint8_t> source(kFrame.nbytes, 1);
  const auto produce = [&] {
    queue.put(Tensor::from_shared(std::span(source), {kFrame.nbytes}, strategy));
  };
  // With the queue full at the start as at the end, as many are read as are put in between.
  for (int i = 0; i < 16 * kInFlight; ++i) produce();
  for (auto _ : state) produce();
  queue.close();
  consumer.join();
}

// From one buffer to another, both of them in the cache if it has room.
void copy(benchmark::State& state) {
  const std::vector<std::byte> source(kFrame.nbytes, std::byte{1});
  std::vector<std::byte> target(kFrame.nbytes);
  for (auto _ : state) {
    std::memcpy(target.data(), source.data(), source.size());
    benchmark::ClobberMemory();
  }
}

}  // namespace

void add_streaming_rows() {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    add_row(shoal_row("streaming", kFrame.name, strategy),
            [=](auto& state) { stream(state, strategy); });
  }
  add_row("raw/streaming/" + std::string(kFrame.name), copy);
}

}  // namespace shoal::bench
