#include <charconv>
#include <cstdio>
#include <cstring>

#include "rows.h"

// Google Benchmark's program with one option more: --iterations=N runs every row N times and no
// more, for those who count what a row does to the system.
namespace shoal::bench {
namespace {

constexpr std::string_view kIterations = "--iterations=";
std::int64_t fixed_iterations = 0;

benchmark::internal::Benchmark* add(const std::string& name, const Work& work) {
  auto* row = benchmark::RegisterBenchmark(name.c_str(), work)->Unit(benchmark::kMicrosecond);
  return fixed_iterations > 0 ? row->Iterations(fixed_iterations) : row;
}

// Takes the option out of the arguments. False if it is there and no number.
bool take_iterations(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kIterations)) continue;
    const char* end = argument.data() + argument.size();
    std::int64_t iterations = 0;
    const auto [stop, error] =
        std::from_chars(argument.data() + kIterations.size(), end, iterations);
    if (error != std::errc{} || stop != end || iterations < 1) return false;
    fix_iterations(iterations);
    std::memmove(argv + i, argv + i + 1, static_cast<std::size_t>(argc - i) * sizeof *argv);
    --argc;
    return true;
  }
  return true;
}

}  // namespace

void fix_iterations(std::int64_t iterations) { fixed_iterations = iterations; }

benchmark::internal::Benchmark* add_row(const std::string& name, const Work& work) {
  return add(name, work)->UseRealTime();
}

benchmark::internal::Benchmark* add_timed_row(const std::string& name, const Work& work) {
  return add(name, work)->UseManualTime();
}

int run(int argc, char** argv) {
  if (!take_iterations(argc, argv)) {
    std::fprintf(stderr, "%s: --iterations needs a whole number of at least 1\n", argv[0]);
    return 2;
  }
  // Raw rows stand next to those that they are compared with, so that both run in the same weather.
  add_create_rows();
  add_raw_memory_rows();
  add_share_rows();
  add_raw_transfer_rows();
  add_transfer_rows();
  add_streaming_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::run(argc, argv); }
