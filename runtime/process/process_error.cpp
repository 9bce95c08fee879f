#include "shoal/runtime/process/process_error.h"

#include <cstring>

namespace shoal {
namespace {

std::string describe_end(int exit_code, int signal) {
  if (signal == 0) return concat("exited with code ", exit_code);
  const char* name = ::sigabbrev_np(signal);
  return name ? concat("was killed by SIG", name) : concat("was killed by signal ", signal);
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

ProcessRaised::ProcessRaised(int rank, pid_t pid, std::string type, std::string message)
    : ProcessFailed(rank, pid, concat("raised ", type, ": ", message)),
      type_(std::move(type)),
      message_(std::move(message)) {}

ProcessExited::ProcessExited(int rank, pid_t pid, int exit_code, int signal)
    : ProcessFailed(rank, pid, describe_end(exit_code, signal)),
      exit_code_(exit_code),
      signal_(signal) {}

}  // namespace shoal
