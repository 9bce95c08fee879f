#include "shoal/runtime/base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include "shoal/runtime/base/error.h"

namespace shoal {

void Fd::reset(int fd) noexcept {
  // Linux releases the number even when close reports EINTR, so there is nothing to retry.
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Fd Fd::duplicate() const {
  Fd copy{::fcntl(fd_, F_DUPFD_CLOEXEC, 0)};
  if (!copy) throw_errno("fcntl(F_DUPFD_CLOEXEC)", concat("descriptor ", fd_));
  return copy;
}

}  // namespace shoal
