#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "manager_registrars.h"
#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/shm_directory.h"

// How a manager bears many clients: each registers names at a steady pace in the way its library
// does, then makes the segments as fast as it can, then all are killed. The same for shm-manager
// and for PyTorch's torch_shm_manager.
namespace shoal::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kPatienceS = 60;

struct Load {
  int clients = 1000;
  int segments = 100;
  double rate = 20'000;  // registrations a second, all clients together
  int burst = 10;        // how many a client makes in a row, before it sleeps
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2");
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
  Fd reading, writing;
};

// How the clients wait for each other.
struct Gate {
  Pipe said;  // a byte from each client when it is ready, and when it is done; 'f' if it failed
  Pipe go;    // ends when all are to begin
  Pipe make;  // ends when all are to make what they have registered
};

// A manager as our child, which may tell its address by its standard output.
struct Server {
  pid_t pid = -1;
  Fd output;
};

Server start(const std::vector<std::string>& command) {
  Pipe output;
  Server server{-1, std::move(output.reading)};
  server.pid = ::fork();
  if (server.pid != 0) return server;
  ::dup2(output.writing.get(), STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

std::uint64_t peak_memory_kib(pid_t pid) {
  std::ifstream status(concat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  return 0;
}

// Files in /dev/shm. Counted, since to list a hundred thousand names keeps others from removing
// them.
std::uint64_t files_there() {
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) != 0) throw_errno("statvfs");
  return space.f_files - space.f_ffree;
}

// In seconds.
double cpu_time(pid_t pid) {
  std::ifstream stat(concat("/proc/", pid, "/stat"));
  std::string word;
  double ticks = 0;
  // The 14th and 15th, of which the second, a name in brackets, is one word here.
  for (int i = 1; i <= 15 && stat >> word; ++i)
    if (i >= 14) ticks += std::strtod(word.c_str(), nullptr);
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Where the clients and their parent meet, in memory that they share.
struct Times {
  Clock::time_point begin;   // written before the gate opens
  std::span<float> took_us;  // of each registration
};

Times& share_times(std::size_t count) {
  void* memory = ::mmap(nullptr, sizeof(Times) + count * sizeof(float), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  auto* times = new (memory) Times;
  times->took_us = {reinterpret_cast<float*>(times + 1), count};
  return *times;
}

void say(const Gate& gate, char what) {
  if (::write(gate.said.writing.get(), &what, 1) != 1) ::_exit(1);
}

// How many of so many clients failed, once each has said something.
int hear_all(const Gate& gate, int clients) {
  int failed = 0;
  for (int i = 0; i < clients; ++i) {
    char said = 0;
    if (!wait_ready(gate.said.reading.get(), POLLIN, in_seconds(kPatienceS)) ||
        ::read(gate.said.reading.get(), &said, 1) != 1)
      throw Error({.kind = ErrorKind::timed_out, .call = "a client", .reason = "says nothing"});
    failed += said == 'f';
  }
  return failed;
}

void run_client(Registrar& registrar, const Load& load, int number, Gate& gate, const Times& times,
                std::span<float> took_us) {
  for (Pipe* pipe : {&gate.go, &gate.make}) pipe->writing.reset();
  say(gate, 'r');
  (void)wait_ready(gate.go.reading.get(), POLLIN, kForever);
  const Seconds interval(load.clients / load.rate);
  const auto begin = times.begin + std::chrono::duration_cast<Clock::duration>(
                                       interval * load.burst * number / load.clients);
  for (int i = 0; i < load.segments; ++i) {
    if (i % load.burst == 0)
      std::this_thread::sleep_until(begin +
                                    std::chrono::duration_cast<Clock::duration>(interval * i));
    const auto asked = Clock::now();
    registrar.add();
    took_us[static_cast<std::size_t>(i)] =
        std::chrono::duration<float, std::micro>(Clock::now() - asked).count();
  }
  say(gate, 'd');
  (void)wait_ready(gate.make.reading.get(), POLLIN, kForever);
  registrar.make_all();
  say(gate, 'm');
  for (;;) ::pause();
}

// Looks each millisecond, for what no event tells.
template <class Done>
bool wait_for(Done&& done) {
  const Deadline deadline = in_seconds(kPatienceS);
  while (!done()) {
    if (deadline.expired()) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

template <class MakeRegistrar>
void measure(const char* title, pid_t manager, const Load& load, MakeRegistrar&& make_registrar) {
  Gate gate;
  const std::uint64_t files_before = files_there();
  const std::size_t total =
      static_cast<std::size_t>(load.clients) * static_cast<std::size_t>(load.segments);
  Times& times = share_times(total);
  std::vector<pid_t> pids;
  for (int number = 0; number < load.clients; ++number) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        auto registrar = make_registrar();
        run_client(*registrar, load, number, gate, times,
                   times.took_us.subspan(static_cast<std::size_t>(number * load.segments),
                                         static_cast<std::size_t>(load.segments)));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", title, error.what());
        for (int i = 0; i < 3; ++i) say(gate, 'f');
      }
      ::_exit(1);
    }
    pids.push_back(pid);
  }
  int failed = hear_all(gate, load.clients);
  const double idle_cpu = cpu_time(manager);
  // All wake at once when the gate opens, which takes them a while.
  times.begin = Clock::now() + std::chrono::seconds(1);
  gate.go.writing.reset();
  failed += hear_all(gate, load.clients);
  const auto end = Clock::now();
  const Seconds took = end - times.begin;
  const double cpu = cpu_time(manager) - idle_cpu;
  gate.make.writing.reset();
  failed += hear_all(gate, load.clients);
  const Seconds made = Clock::now() - end;
  const auto memory = peak_memory_kib(manager);
  const auto killed = Clock::now();
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  const Seconds dead = Clock::now() - killed;
  const bool clean = wait_for([&] { return files_there() <= files_before; });
  const Seconds reaped = Clock::now() - killed;
  std::ranges::sort(times.took_us);
  const auto at = [&](double share) {
    return static_cast<double>(times.took_us[static_cast<std::size_t>(share * (total - 1.0))]) /
           1000;
  };
  std::printf(
      "%-18s %8.0f/s  %7.2f ms  %7.2f ms  %7.2f ms  %4.0f us  %6.1f MiB  %6.0f/s  %5.2f s  %6.2f "
      "s%s\n",
      title, static_cast<double>(total) / took.count(), at(0.5), at(0.99), at(1),
      cpu / static_cast<double>(total) * 1e6, static_cast<double>(memory) / 1024,
      static_cast<double>(total) / made.count(), dead.count(), reaped.count(),
      failed > 0 ? "  (clients failed)"
      : clean    ? ""
                 : "  (not all)");
  std::fflush(stdout);
}

int run(const Load& load, const std::string& program, const std::string& torch) {
  const std::string prefix = concat("shoal-bench-", ::getpid(), "-");
  shm_directory::set_name_prefix(prefix);
  std::printf("%d clients register %d segments each, %.0f a second asked for\n", load.clients,
              load.segments, load.rate);
  std::printf("%-18s %10s  %10s  %10s  %10s  %7s  %10s  %8s  %7s  %8s\n", "", "registered",
              "median", "p99", "slowest", "cpu of it", "memory", "made", "dead", "reaped");
  {
    const std::string socket = concat("/tmp/", prefix, "manager/m.sock");
    ::setenv("SHOAL_MANAGER", socket.c_str(), 1);
    const Server server =
        start({program, "serve", "--socket", socket, "--prefix", prefix, "--log-level", "error"});
    wait_for([&] { return std::filesystem::exists(socket); });
    measure("shm-manager", server.pid, load,
            [&] { return std::make_unique<ShoalRegistrar>(prefix); });
    ::kill(server.pid, SIGTERM);
    ::waitpid(server.pid, nullptr, 0);
    std::filesystem::remove_all(std::filesystem::path(socket).parent_path());
  }
  measure("clients alone", ::getpid(), load, [] { return std::make_unique<NoRegistrar>(); });
  if (torch.empty()) return 0;
  const Server server = start({torch});
  std::array<char, 256> path{};
  const ssize_t got = ::read(server.output.get(), path.data(), path.size() - 1);
  std::string socket(path.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  while (!socket.empty() && socket.back() == '\n') socket.pop_back();
  // It ends with its last client, and reaps then.
  measure("torch_shm_manager", server.pid, load,
          [&] { return std::make_unique<TorchRegistrar>(socket, prefix); });
  for (const std::string& name : shm_directory::list(prefix)) shm_directory::unlink(name);
  ::kill(server.pid, SIGTERM);
  ::waitpid(server.pid, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  shoal::bench::Load load;
  std::string program = SHM_MANAGER, torch;
  CLI::App app("Measures shm-manager, and torch_shm_manager beside it, under many clients.");
  app.option_defaults()->always_capture_default();
  app.add_option("--clients", load.clients, "Processes")->check(CLI::Range(1, 4000));
  app.add_option("--segments", load.segments, "Segments of each")->check(CLI::Range(1, 10'000));
  app.add_option("--rate", load.rate, "Registrations a second, of all")
      ->check(CLI::Range(1.0, 1e9));
  app.add_option("--burst", load.burst, "Registrations of a client in a row")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--manager", program, "The shm-manager to measure");
  app.add_option("--torch", torch, "A torch_shm_manager to measure, too");
  CLI11_PARSE(app, argc, argv);
  try {
    return shoal::bench::run(load, program, torch);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "manager_bench: %s\n", error.what());
    return 1;
  }
}
