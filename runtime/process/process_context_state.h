#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/process/output_tagger.h"
#include "shoal/runtime/process/process_context.h"

// What the launcher keeps of its workers. Private to this folder.
namespace shoal {

struct WorkerRecord {
  pid_t pid = -1;
  Fd pidfd{};   // readable once the process has ended
  Fd status{};  // of a fork server's child: what it has ended with (fork_server_process.h)
  Fd report{};
  Channel channel;
  Channel result;
  std::optional<WorkerEnd> end{};  // once collected
  std::string failure{};           // what its report pipe held by then
  bool told = false;               // by wait_any
  bool result_taken = false;
};

struct ProcessContext::State {
  std::vector<WorkerRecord> workers;
  double linger_seconds = 0, grace_seconds = 1;
  pid_t owner = ::getpid();  // a child forked by the program copies this object, not the workers
  int failed_rank = -1;      // the first to fail
  std::unique_ptr<OutputTagger> tagger;

  State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  // Waits until one more has ended; false at the deadline or when all have.
  bool collect(Deadline deadline);
  void signal_all(int signal) const;
  void terminate(double grace) noexcept;
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] WorkerRecord& at(int rank, const char* call);
  [[noreturn]] void throw_failure(int rank) const;
};

// All contexts of this process. A forked worker closes their channels: with a launcher's end open
// there, a sibling would not see that the launcher has closed it.
struct LiveContexts {
  std::mutex mutex;
  std::set<ProcessContext::State*> states;
};
[[nodiscard]] LiveContexts& live_contexts();

}  // namespace shoal
