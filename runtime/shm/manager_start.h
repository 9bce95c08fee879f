#pragma once

#include <string>
#include <string_view>

#include "shoal/runtime/base/deadline.h"

namespace shoal::manager {

// What a private manager writes to standard error, last, when it is ready.
inline constexpr std::string_view kReady = "ready\n";

// Starts a private manager that listens there, unless somebody listens already; returns once it can
// be connected to. It runs in a session of its own, so that it outlives whatever happens to the
// caller's process group, and is no child of the caller. It ends by itself when it has had nothing
// to watch for a while.
//
// The program is $SHOAL_MANAGER_PROGRAM, or shm-manager beside the running program, where it was
// installed, or in $PATH. Throws Error naming the program, errno, and what it wrote to standard
// error.
void start_private(const std::string& socket_path, Deadline deadline);

}  // namespace shoal::manager
