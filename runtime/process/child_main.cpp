#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iostream>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/fork_server_process.h"
#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/process/output_tagger.h"
#include "shoal/runtime/process/worker_process.h"

// What a program that was started again finds on its command line, and who puts it there.
namespace shoal {
namespace {

constexpr std::string_view kWorker = "--shoal-worker";
constexpr std::string_view kForkServer = "--shoal-fork-server";
constexpr std::string_view kOutputTagger = "--shoal-output-tagger";
constexpr int kExitUsage = 2;

bool main_called_child_main = false;

// Numbers with commas between them, as join makes them. Empty for anything else, for standard
// streams, and for what is not open.
std::vector<Fd> parse_descriptors(std::string_view text) {
  std::vector<Fd> fds;
  for (;;) {
    int number = -1;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc() || number < 3 || ::fcntl(number, F_SETFD, FD_CLOEXEC) < 0) return {};
    fds.emplace_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return fds;
    if (text.front() != ',') return {};
    text.remove_prefix(1);
  }
}

std::string join(const std::vector<Fd>& fds) {
  std::string text;
  for (const Fd& fd : fds) text += concat(text.empty() ? "" : ",", fd.get());
  return text;
}

int run_named(const std::string& name, const WorkerSettings& settings, WorkerEnds ends) {
  // Found inside the worker, so that an unknown name is reported like any other failure.
  return run_worker([&name](Worker& worker) { return find_entry(name)(worker); }, settings,
                    std::move(ends));
}

}  // namespace

// prog --shoal-worker ENTRY NUMBERS CHANNEL,REPORT,RESULT,LAUNCHER
std::vector<std::string> worker_arguments(const std::string& entry, const WorkerSettings& settings,
                                          WorkerEnds& ends) {
  return {program_invocation_name, std::string(kWorker), entry, settings.numbers(),
          concat(ends.channel.get(), ',', ends.report.get(), ',', ends.result.get(), ',',
                 ends.launcher.get())};
}

// prog --shoal-output-tagger DESCRIPTOR,…
std::vector<std::string> output_tagger_arguments(const std::vector<Fd>& reading) {
  return {program_invocation_name, std::string(kOutputTagger), join(reading)};
}

// prog --shoal-fork-server CONTROL,LAUNCHER
std::vector<std::string> fork_server_arguments(const Fd& control, const Fd& launcher) {
  return {program_invocation_name, std::string(kForkServer),
          concat(control.get(), ',', launcher.get())};
}

void check_child_main() {
  if (main_called_child_main) return;
  throw Error({.kind = ErrorKind::invalid_argument,
               .call = "launch",
               .reason = "a worker runs this program's main again, which would not know that it is "
                         "a worker",
               .remedy = "Make shoal::child_main(argc, argv) the first line of main"});
}

void child_main(int argc, char** argv) {
  main_called_child_main = true;
  const std::string_view role = argc < 2 ? "" : argv[1];
  if (role != kWorker && role != kForkServer && role != kOutputTagger) return;
  int code = kExitUsage;
  try {
    WorkerSettings settings;
    std::vector<Fd> fds = parse_descriptors(argv[argc - 1]);
    if (role == kWorker && argc == 5 && WorkerSettings::parse_numbers(argv[3], settings) &&
        fds.size() == 4) {
      code = run_named(argv[2], settings,
                       {.channel = std::move(fds[0]),
                        .report = std::move(fds[1]),
                        .result = std::move(fds[2]),
                        .launcher = std::move(fds[3])});
    } else if (role == kForkServer && argc == 3 && fds.size() == 2) {
      code = serve_forks(std::move(fds[0]), std::move(fds[1]));
    } else if (role == kOutputTagger && argc == 3 && !fds.empty()) {
      code = tag_output(std::move(fds));
    } else {
      std::cerr << argv[0] << ": " << role << " is for processes that Shoal starts itself\n";
    }
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
  }
  std::exit(code);
}

}  // namespace shoal
