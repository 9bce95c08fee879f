#include "shoal/runtime/base/deadline.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "shoal/runtime/base/error.h"

namespace shoal {

Deadline Deadline::after(std::chrono::duration<double> duration) {
  using std::chrono::duration_cast;
  const auto now = Clock::now();
  // Beyond this the sum would overflow; a century is never.
  constexpr std::chrono::duration<double> kCentury{3.2e9};
  if (!(duration < kCentury)) return {};
  Deadline deadline;
  deadline.at_ = now + duration_cast<Clock::duration>(std::max(duration, duration.zero()));
  return deadline;
}

int Deadline::poll_timeout() const {
  if (is_never()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

Deadline in_seconds(double seconds) {
  return Deadline::after(std::chrono::duration<double>(seconds));
}

Deadline in_ms(double milliseconds) { return in_seconds(milliseconds / 1e3); }

bool wait_ready(int fd, short events, Deadline deadline) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll", concat("descriptor ", fd));
    if (ready == 0 && deadline.expired()) return false;
  }
}

}  // namespace shoal
