#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/launch.h"

// What it takes to start so many workers that do nothing, and to see them end; in a launcher that
// holds little, and in one that holds 1 GiB.
namespace shoal::bench {

SHOAL_ENTRY(do_nothing)
int do_nothing(Worker& /*worker*/) { return 0; }

namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

// Private memory, touched page by page, as a program's own data are.
class Ballast {
 public:
  explicit Ballast(std::size_t nbytes) : nbytes_(nbytes) {
    if (nbytes == 0) return;
    memory_ = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw_errno("mmap", "the ballast");
    ::madvise(memory_, nbytes, MADV_NOHUGEPAGE);
    for (std::size_t at = 0; at < nbytes; at += 4096) static_cast<char*>(memory_)[at] = 1;
  }
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;
  ~Ballast() {
    if (nbytes_ > 0) ::munmap(memory_, nbytes_);
  }

 private:
  std::size_t nbytes_;
  void* memory_ = nullptr;
};

void launch_and_join(benchmark::State& state, StartMethod method, int workers, std::size_t nbytes) {
  const Ballast ballast(nbytes);
  // That is started once in a program's life, and early.
  if (method == StartMethod::forkserver) start_fork_server();
  for (auto _ : state) launch(do_nothing, {.nprocs = workers, .start_method = method}).join();
}

// What every launch has to do at least: fork, and wait.
void fork_and_wait(benchmark::State& state, int workers, std::size_t nbytes) {
  const Ballast ballast(nbytes);
  std::vector<pid_t> pids(static_cast<std::size_t>(workers));
  for (auto _ : state) {
    for (pid_t& pid : pids) {
      pid = ::fork();
      if (pid == 0) ::_exit(0);
    }
    for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  }
}

void add_rows() {
  const auto add = [](const std::string& name, const auto& work) {
    benchmark::RegisterBenchmark(name.c_str(), work)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  const struct {
    int workers;
    std::size_t nbytes;
    const char* size;
  } loads[] = {{4, 0, "small"}, {16, 0, "small"}, {16, kGiB, "1GiB"}};
  for (const auto& load : loads) {
    const int workers = load.workers;
    const std::size_t nbytes = load.nbytes;
    const std::string work = concat("launch", workers, '/', load.size);
    for (const StartMethod method : get_all_start_methods()) {
      add(concat("shoal/", work, '/', to_string(method)),
          [=](benchmark::State& state) { launch_and_join(state, method, workers, nbytes); });
    }
    add(concat("raw/", work),
        [=](benchmark::State& state) { fork_and_wait(state, workers, nbytes); });
  }
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  shoal::child_main(argc, argv);
  shoal::bench::add_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
