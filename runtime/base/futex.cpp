#include "shoal/runtime/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "shoal/runtime/base/error.h"

namespace shoal {

bool futex_wait(const FutexWord& word, std::uint32_t expected, Deadline deadline) {
  const auto left = deadline.left();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(seconds.count());
  timeout.tv_nsec = static_cast<long>(std::chrono::nanoseconds(left - seconds).count());
  // Not FUTEX_PRIVATE_FLAG: the waker may be another process.
  if (::syscall(SYS_futex, &word, FUTEX_WAIT, expected, deadline.is_never() ? nullptr : &timeout,
                nullptr, 0) == 0)
    return true;
  if (errno == EAGAIN || errno == EINTR) return true;
  if (errno == ETIMEDOUT) return false;
  throw_errno("futex");
}

void futex_wake(const FutexWord& word, int count) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace shoal
