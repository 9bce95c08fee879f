#include "shoal/runtime/process/pidfd.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "shoal/runtime/base/error.h"

namespace shoal {

Fd open_pidfd(pid_t pid) {
  // By number: glibc 2.36 declares its wrapper without C linkage. The kernel sets close-on-exec.
  Fd fd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  if (!fd) throw_errno("pidfd_open", concat("pid ", pid), "Linux 5.4 or later is needed");
  return fd;
}

void signal_process(const Fd& pidfd, int signal) noexcept {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

}  // namespace shoal
