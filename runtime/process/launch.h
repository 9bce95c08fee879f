#pragma once

#include <functional>
#include <map>
#include <string>

#include "shoal/runtime/process/entry.h"
#include "shoal/runtime/process/process_context.h"
#include "shoal/runtime/process/start_method.h"

namespace shoal {

struct LaunchOptions {
  int nprocs = 1;
  StartMethod start_method = default_start_method();
  // After a failure the others may go on for this long, to finish or to write down what happened;
  // then they get SIGTERM, and `grace_seconds` later SIGKILL.
  double linger_seconds = 0;
  double grace_seconds = 1;
  // How long the fork server may take to start a worker, and a worker to accept arguments that do
  // not fit its channel's buffer. How long its main takes to come to child_main is not limited.
  double start_timeout_seconds = 60;
  // Worker::threads; 0: the processors that this process may use, by affinity and cgroup, divided
  // among the workers, at least 1. Also in SHOAL_THREADS, and in OMP_NUM_THREADS and
  // OPENBLAS_NUM_THREADS, where these are not set; which libraries heed that are loaded later, in a
  // spawned worker all.
  int threads_per_worker = 0;
  // Each worker keeps to processors of its own, as many as it has threads, as far as they last.
  bool pin_cpus = false;
  // Whether a worker may launch.
  bool allow_children = true;
  // Each line that a worker writes to its standard output or error has "[rank] " put in front. By a
  // process of its own, which is done when join returns.
  bool tag_output = false;
  // fork, with other threads running: you know that none of them has locked what a worker needs.
  bool fork_with_threads = false;
  // For the workers, besides the environment they inherit; SHOAL_RANK and SHOAL_WORLD_SIZE are set
  // in any case.
  std::map<std::string, std::string> environment{};
};

// Starts `nprocs` processes that run `entry`, each with its own Worker::args. Private tensors in
// the arguments move into shared memory, so that nobody trains on a silent copy. Workers may launch
// workers of their own.
//
// Throws Error(invalid_argument) for fewer than one process, an entry that is not registered, or
// spawn and forkserver from a program whose main has not called child_main; Error(unsupported) for
// a fork that would not be safe (fork_guard.h, and threads), or in a worker that may not launch;
// Error for a failed system call. What had been started by then is ended.
[[nodiscard]] ProcessContext launch(Entry entry, const std::function<Message(int rank)>& args,
                                    const LaunchOptions& options);
// The same arguments for all.
[[nodiscard]] ProcessContext launch(Entry entry, const Message& args,
                                    const LaunchOptions& options = {});
// None.
[[nodiscard]] ProcessContext launch(Entry entry, const LaunchOptions& options);
// Forks, whatever options.start_method says, so the entry may be any callable, and use what it
// captured. Tensors that it captures must be shared already: a private one would be a copy.
[[nodiscard]] ProcessContext launch_forked(const std::function<int(Worker&)>& entry,
                                           const LaunchOptions& options = {});

// The first line of every main that launches with spawn or forkserver. In a worker it runs the
// entry and exits; in any other process it returns.
void child_main(int argc, char** argv);

// Starts the server of StartMethod::forkserver now, instead of at the first launch; nothing if it
// runs. It ends with this process, and is replaced if it ended before. Throws as launch.
void start_fork_server();

}  // namespace shoal
