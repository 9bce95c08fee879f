#pragma once

#include "shoal/runtime/base/fd.h"

namespace shoal {

// Ends this process as soon as `launcher`, a pidfd, becomes readable: its process has ended. What
// this process held by name is given back first. A thread of its own watches, so that it works
// whatever the others are doing.
void end_with(Fd launcher, int rank);

}  // namespace shoal
