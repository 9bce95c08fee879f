#pragma once

#include <cstdint>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/ipc/message.h"
#include "shoal/runtime/process/worker_process.h"

// The fork server's side of StartMethod::forkserver. Private to this folder.
namespace shoal {

// How a process ended, as waitid says it. What the server writes when a worker has: the launcher is
// not its parent and cannot ask.
struct WorkerStatus {
  std::int32_t code = 0;  // CLD_EXITED, CLD_KILLED or CLD_DUMPED
  std::int32_t status = 0;
};

// What the launcher asks for, as a message of the control channel: the worker's ends, the writing
// end of a pipe for its WorkerStatus, and with tag_output what its output and errors go to. The
// answer's tag is empty, its bytes a ForkAnswer, its descriptor a pidfd; or its tag says why not.
struct ForkAnswer {
  std::uint64_t number = 0;  // of the request; 0 if that could not be read
  std::int64_t pid = -1;
};

struct ForkRequest {
  std::uint64_t number = 0;
  std::string entry{};
  WorkerSettings settings{};
  WorkerEnds ends{};
  Fd status{};
  Fd output{}, errors{};

  [[nodiscard]] Message encode() &&;
  // Throws Error(malformed).
  [[nodiscard]] static ForkRequest decode(Message message);
};

// Forks what is asked for until the launcher has ended. Returns the exit code; in a worker it does
// not return.
[[nodiscard]] int serve_forks(Fd control, Fd launcher);

}  // namespace shoal
