#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/process/entry.h"
#include "shoal/runtime/process/process_error.h"
#include "shoal/runtime/process/worker_settings.h"

// The worker's side of launch. Private to this folder.
namespace shoal {

// The descriptors that a worker is born with.
struct WorkerEnds {
  Fd channel;   // its end of the channel to the launcher
  Fd report;    // the writing end of a pipe: why the entry failed
  Fd result;    // its end of a channel for Worker::result
  Fd launcher;  // a pidfd of the launcher, readable once that has ended
  // In their order.
  [[nodiscard]] std::array<Fd*, 4> all() { return {&channel, &report, &result, &launcher}; }
};

// As the report pipe carries it, which it fits: its parts with zero bytes between them.
[[nodiscard]] std::string encode_report(const FailureReport& report);
[[nodiscard]] FailureReport decode_report(const std::string& text);

// Applies the settings, watches the launcher, receives the arguments, runs the entry, sends its
// result. Returns the exit code. To be called while the process has no other threads.
[[nodiscard]] int run_worker(const std::function<int(Worker&)>& entry,
                             const WorkerSettings& settings, WorkerEnds ends) noexcept;
// The same in a process just forked, which first has to `settle` in: an exception from that counts
// as the entry's. It ends without a word to what it copied.
[[noreturn]] void run_forked_worker(const std::function<void()>& settle,
                                    const std::function<int(Worker&)>& entry,
                                    const WorkerSettings& settings, WorkerEnds ends) noexcept;

// The command line of a spawned worker, and of a fork server.
[[nodiscard]] std::vector<std::string> worker_arguments(const std::string& entry,
                                                        const WorkerSettings& settings,
                                                        WorkerEnds& ends);
[[nodiscard]] std::vector<std::string> fork_server_arguments(const Fd& control, const Fd& launcher);

// Writes out what standard output and error have buffered. Not what others have: to look for that
// would be to wait for threads that read.
void flush_output() noexcept;

// Throws Error(invalid_argument) unless this process' main has called child_main.
void check_child_main();
// Throws Error(unsupported) in a worker with allow_children = false.
void check_may_launch();

}  // namespace shoal
