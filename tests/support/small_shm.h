#pragma once

#include <sched.h>
#include <sys/mount.h>

namespace shoal::test {

// From now on the calling process, and whatever it starts, has a /dev/shm of 1 MiB of its own.
// False where that is not permitted.
inline bool shrink_dev_shm(const char* options = "size=1m") {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

}  // namespace shoal::test
