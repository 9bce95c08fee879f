#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "shoal/runtime/process/entry.h"
#include "shoal/runtime/process/process_context.h"

namespace shoal {

// How a worker comes to be. In both ways it ends, within two seconds, when its launcher has ended,
// however that happened. Launchers' ends of other workers' channels are closed in it.
enum class StartMethod {
  // The program again, from its start: main runs up to child_main, which runs the entry and exits.
  // The worker inherits environment, working directory and standard streams; of memory only what it
  // is sent. Works in programs with threads. The default.
  spawn,
  // A copy of this process at this moment, memory, signal handlers and open descriptors included,
  // channels that you made too: their ends close once every copy has.
  // Threads are not copied, and what they had locked stays locked: launch before making any.
  // The worker ends by _exit: no static is destroyed and no atexit handler runs.
  fork,
};

[[nodiscard]] std::string_view to_string(StartMethod method);
// Throws Error(invalid_argument) that lists what there is.
[[nodiscard]] StartMethod parse_start_method(std::string_view name);
[[nodiscard]] std::span<const StartMethod> get_all_start_methods();

struct LaunchOptions {
  int nprocs = 1;
  StartMethod start_method = StartMethod::spawn;
  // After a failure the others get SIGTERM, and this much later SIGKILL.
  double grace_seconds = 1;
  // How long a worker may take to accept its arguments.
  double start_timeout_seconds = 60;
};

// Starts `nprocs` processes that run `entry`, each with its own Worker::args. Private tensors in
// the arguments move into shared memory, so that nobody trains on a silent copy.
//
// Throws Error(invalid_argument) for fewer than one process, an entry that is not registered, or a
// spawn from a program whose main has not called child_main; Error for a failed system call. What
// had been started by then is ended.
[[nodiscard]] ProcessContext launch(Entry entry, const std::function<Message(int rank)>& args,
                                    const LaunchOptions& options = {});
// The same arguments for all.
[[nodiscard]] ProcessContext launch(Entry entry, const Message& args,
                                    const LaunchOptions& options = {});
// None.
[[nodiscard]] ProcessContext launch(Entry entry, const LaunchOptions& options);
// Forks, whatever options.start_method says, so the entry may be any callable, and use what it
// captured. Tensors that it captures must be shared already: a private one would be a copy.
[[nodiscard]] ProcessContext launch_forked(const std::function<int(Worker&)>& entry,
                                           const LaunchOptions& options = {});

// The first line of every main that launches with spawn. In a worker it runs the entry and exits;
// in any other process it returns.
void child_main(int argc, char** argv);

}  // namespace shoal
