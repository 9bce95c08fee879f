#include "shoal/runtime/process/worker_process.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <typeinfo>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/process/parent_watch.h"

namespace shoal {
namespace {

constexpr std::string_view kMarker = "--shoal-worker";
constexpr std::size_t kReportBytes = 4096;  // PIPE_BUF: written whole or not at all
constexpr int kExitRaised = 1;
constexpr int kExitUsage = 2;

bool main_called_child_main = false;

std::string type_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed), &std::free);
  return failed == 0 ? text.get() : type.name();
}

void report(const Fd& pipe, const FailureReport& failure) {
  const std::string text = failure.encode();
  [[maybe_unused]] const auto written = ::write(pipe.get(), text.data(), text.size());
}

template <class... Numbers>
bool parse_numbers(std::string_view text, Numbers&... numbers) {
  const auto next = [&text](int& number) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
    return true;
  };
  return (next(numbers) && ...) && text.empty();
}

Fd inherited(int fd) {
  Fd owned{fd};
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) throw_errno("fcntl", concat("descriptor ", fd));
  return owned;
}

}  // namespace

std::string FailureReport::encode() const {
  std::string text = type + '\0' + message;
  if (text.size() > kReportBytes) text.resize(kReportBytes);
  return text;
}

FailureReport FailureReport::decode(const std::string& text) {
  const auto cut = text.find('\0');
  if (cut == std::string::npos) return {.type = "an exception", .message = text};
  return {.type = text.substr(0, cut), .message = text.substr(cut + 1)};
}

int run_worker(const std::function<int(Worker&)>& entry, int rank, int world_size,
               WorkerEnds ends) noexcept {
  try {
    end_with(std::move(ends.launcher), rank);
    Channel parent(std::move(ends.channel));
    // The launcher keeps the time; if it ends meanwhile, so does this process.
    auto args = parent.receive();
    check(args.has_value(), ErrorKind::peer_gone, "worker", "no arguments came from the launcher");
    Worker worker{
        .rank = rank, .world_size = world_size, .parent = parent, .args = std::move(*args)};
    return entry(worker);
  } catch (const std::exception& error) {
    report(ends.report, {.type = type_name(typeid(error)), .message = error.what()});
  } catch (...) {
    report(ends.report, {.type = "an exception", .message = "not derived from std::exception"});
  }
  return kExitRaised;
}

// prog --shoal-worker ENTRY RANK/WORLD CHANNEL,REPORT,LAUNCHER
std::vector<std::string> worker_arguments(const std::string& entry, int rank, int world_size,
                                          const WorkerEnds& ends) {
  return {program_invocation_name, std::string(kMarker), entry, concat(rank, '/', world_size),
          concat(ends.channel.get(), ',', ends.report.get(), ',', ends.launcher.get())};
}

bool child_main_was_called() { return main_called_child_main; }

void child_main(int argc, char** argv) {
  main_called_child_main = true;
  if (argc < 2 || argv[1] != kMarker) return;
  int rank = 0, world_size = 0, channel = -1, report_fd = -1, launcher = -1;
  if (argc != 5 || !parse_numbers(argv[3], rank, world_size) ||
      !parse_numbers(argv[4], channel, report_fd, launcher) || channel < 3 || report_fd < 3 ||
      launcher < 3) {
    std::cerr << argv[0] << ": " << kMarker << " is for processes that Shoal starts itself\n";
    std::exit(kExitUsage);
  }
  int code = kExitUsage;
  try {
    WorkerEnds ends{.channel = inherited(channel),
                    .report = inherited(report_fd),
                    .launcher = inherited(launcher)};
    // Found inside the worker, so that an unknown name is reported like any other failure.
    const std::string name = argv[2];
    code = run_worker([&name](Worker& worker) { return find_entry(name)(worker); }, rank,
                      world_size, std::move(ends));
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
  }
  std::exit(code);
}

}  // namespace shoal
