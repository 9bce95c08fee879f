#include "shoal/runtime/process/process_error.h"

#include <cstring>

namespace shoal {
namespace {

std::string describe(const WorkerEnd& end) {
  if (end.unknown)
    return "ended, and how is not known: somebody else in this process waits for children or "
           "ignores "
           "SIGCHLD, or the fork server ended first";
  if (end.signal == 0) return concat("exited with code ", end.exit_code);
  const char* name = ::sigabbrev_np(end.signal);
  return concat("was killed by ", name ? concat("SIG", name) : concat("signal ", end.signal),
                end.dumped_core ? ", and dumped core" : "");
}

}  // namespace

ProcessFailed::ProcessFailed(int rank, pid_t pid, std::string reason)
    : Error({.kind = ErrorKind::worker_failed,
             .call = concat("worker of rank ", rank, " (pid ", pid, ")"),
             .subject = {},
             .reason = std::move(reason),
             .remedy = {}}),
      rank_(rank),
      pid_(pid) {}

ProcessRaised::ProcessRaised(int rank, pid_t pid, FailureReport report)
    : ProcessFailed(rank, pid,
                    concat("raised ", report.type, ": ", report.message,
                           report.calls.empty() ? "" : "\n", report.calls)),
      report_(std::move(report)) {}

ProcessExited::ProcessExited(int rank, pid_t pid, const WorkerEnd& end)
    : ProcessFailed(rank, pid, describe(end)), end_(end) {}

}  // namespace shoal
