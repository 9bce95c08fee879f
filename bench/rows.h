#pragma once

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "shoal/runtime/shm/sharing_strategy.h"

// What sharing costs: one row for each piece of work. The names are also those of the peers'
// programs, so that compare.sh can lay results side by side:
//
//   <who>/<what>/<size>/<strategy>[/cold]      shoal/create/4KiB/file_descriptor
//
// Rows of `raw` are the bare system calls that the work cannot do without, and have no strategy.
// Rows that end in /cold find no memory to use again; all others run in steady state.
namespace shoal::bench {

struct Size {
  std::string_view name;
  std::int64_t nbytes;
};
inline constexpr Size k4B{"4B", 4}, k4KiB{"4KiB", 4 << 10}, k64KiB{"64KiB", 64 << 10},
    k1MiB{"1MiB", 1 << 20}, k16MiB{"16MiB", 16 << 20}, k64MiB{"64MiB", 64 << 20},
    k256MiB{"256MiB", 256 << 20};

inline constexpr std::array kCreateSizes{k4B, k4KiB, k64KiB, k1MiB, k16MiB, k64MiB, k256MiB};
inline constexpr std::array kShareSizes{k4KiB, k64KiB, k1MiB, k16MiB, k64MiB};
inline constexpr std::array kRoundTripSizes{k4B, k1MiB, k64MiB};

// What one write to each page touches.
inline constexpr std::int64_t kPageBytes = 4096;

using Work = std::function<void(benchmark::State&)>;

// Measured by the clock on the wall, since much of the work is waiting for another process.
benchmark::internal::Benchmark* add_row(const std::string& name, const Work& work);
// For work that says itself, by time_iteration, which part of it counts.
benchmark::internal::Benchmark* add_timed_row(const std::string& name, const Work& work);
// All rows added from now on run so many times, however long that takes.
void fix_iterations(std::int64_t iterations);

[[nodiscard]] inline std::string shoal_row(std::string_view work, std::string_view size,
                                           SharingStrategy strategy) {
  return "shoal/" + std::string(work) + '/' + std::string(size) + '/' +
         std::string(to_string(strategy));
}

template <class Timed>
void time_iteration(benchmark::State& state, const Timed& timed) {
  const auto start = std::chrono::steady_clock::now();
  timed();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  state.SetIterationTime(took.count());
}

void add_create_rows();
void add_share_rows();
void add_transfer_rows();
void add_streaming_rows();
void add_raw_memory_rows();
void add_raw_transfer_rows();

}  // namespace shoal::bench
