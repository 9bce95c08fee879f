#pragma once

#include <sys/types.h>

#include <string>

#include "shoal/runtime/base/error.h"

namespace shoal {

// How a worker ended.
struct WorkerEnd {
  int exit_code = 0;  // 0 if a signal ended it
  int signal = 0;     // 0 if it exited by itself
  bool dumped_core = false;
  // Somebody else in this process collected it (a waitpid of the program's, or SIGCHLD ignored), or
  // the fork server ended before it could tell; what still ran was killed then.
  bool unknown = false;
  [[nodiscard]] bool succeeded() const { return exit_code == 0 && signal == 0 && !unknown; }
};

// How a launched process failed.
class ProcessFailed : public Error {
 public:
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 protected:
  ProcessFailed(int rank, pid_t pid, std::string reason);

 private:
  int rank_;
  pid_t pid_;
};

// What a worker says of the exception that its entry threw. Longer ones than a pipe takes at once
// are cut, the calls first.
struct FailureReport {
  std::string type{};     // "shoal::Error"
  std::string message{};  // its what()
  std::string calls{};    // that led to the throw, one a line; only with Shoal::throw_trace
};

// Its entry threw. what() has all three.
class ProcessRaised : public ProcessFailed {
 public:
  ProcessRaised(int rank, pid_t pid, FailureReport report);

  [[nodiscard]] const std::string& type() const { return report_.type; }
  [[nodiscard]] const std::string& message() const { return report_.message; }
  [[nodiscard]] const std::string& stack_trace() const { return report_.calls; }

 private:
  FailureReport report_;
};

// It ended without success: by an exit code, or by a signal.
class ProcessExited : public ProcessFailed {
 public:
  ProcessExited(int rank, pid_t pid, const WorkerEnd& end);

  [[nodiscard]] int exit_code() const { return end_.exit_code; }
  [[nodiscard]] int signal() const { return end_.signal; }
  [[nodiscard]] bool dumped_core() const { return end_.dumped_core; }
  [[nodiscard]] const WorkerEnd& end() const { return end_; }

 private:
  WorkerEnd end_;
};

}  // namespace shoal
