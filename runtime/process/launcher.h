#pragma once

#include <functional>
#include <string>

#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/process/process_context_state.h"
#include "shoal/runtime/process/worker_process.h"

// Private to this folder.
namespace shoal {

// Builds a ProcessContext worker by worker, by rank; if it fails midway, the context ends what it
// has.
class Launcher {
 public:
  // Throws Error as launch does. `options` stay the caller's.
  explicit Launcher(const LaunchOptions& options);

  // The next one.
  void spawn(const std::string& entry);
  void fork(const std::function<int(Worker&)>& entry);
  void fork_elsewhere(const std::string& entry);  // by the fork server

  void send_arguments(const std::function<Message(int rank)>& args);
  [[nodiscard]] ProcessContext take();

 private:
  // `run(settings, ends, record)` starts it and fills in the record, which is in the context
  // already, so that a forked worker finds and closes what it has, too.
  template <class Run>
  void add(const Run& run);
  [[nodiscard]] ProcessContext::State& state() const { return *context_.state_; }

  const LaunchOptions& options_;
  int threads_;
  Fd self_;
  ProcessContext context_;
};

}  // namespace shoal
