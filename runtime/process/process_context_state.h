#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/process/process_context.h"

// What the launcher keeps of its workers. Private to this folder.
namespace shoal {

// The launcher's ends of all its channels, of every context: a forked worker closes them, since
// with one of them open there, a sibling would not see that the launcher's end has closed.
struct LauncherEnds {
  std::mutex mutex;
  std::set<int> fds;
};
[[nodiscard]] LauncherEnds& launcher_ends();

struct WorkerRecord {
  pid_t pid = -1;
  Fd pidfd;  // readable once the process has ended
  Fd report;
  Channel channel;
  std::optional<int> exit_code;  // once collected
  std::optional<int> signal;
  [[nodiscard]] bool ended() const { return exit_code || signal; }
};

struct ProcessContext::State {
  std::vector<WorkerRecord> workers;
  double grace_seconds = 1;
  int failed_rank = -1;  // the first to fail
  std::string failure;   // what its report pipe held

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  void add(WorkerRecord worker);
  // Waits until one more has ended; false at the deadline or when all have.
  bool collect(Deadline deadline);
  void signal_all(int signal) const;
  void terminate(double grace) noexcept;
  [[nodiscard]] bool all_ended() const;
  [[noreturn]] void throw_failure() const;
};

}  // namespace shoal
