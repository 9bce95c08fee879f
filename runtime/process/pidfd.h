#pragma once

#include <sys/types.h>

#include "shoal/runtime/base/fd.h"

namespace shoal {

// A descriptor of the process, for poll(2): readable once it has ended, and it never comes to mean
// another process as a number may. Throws Error.
[[nodiscard]] Fd open_pidfd(pid_t pid);

// Sends the signal to that process and no other; does nothing if it has ended.
void signal_process(const Fd& pidfd, int signal) noexcept;

}  // namespace shoal
