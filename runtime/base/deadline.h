#pragma once

#include <algorithm>
#include <chrono>

namespace shoal {

// The instant at which a wait gives up. Passing one instant through nested waits keeps the whole
// within the caller's limit, which a duration handed from call to call does not.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Never passes.
  constexpr Deadline() = default;

  // Passes after `duration`; at once if it is zero or negative, never if the clock cannot reach it.
  [[nodiscard]] static Deadline after(std::chrono::duration<double> duration);

  [[nodiscard]] constexpr bool is_never() const { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool expired() const { return !is_never() && Clock::now() >= at_; }

  // What poll(2) takes: milliseconds rounded up, 0 when expired, -1 for never.
  [[nodiscard]] int poll_timeout() const;

  // The time until then, at least zero.
  [[nodiscard]] Clock::duration left() const {
    return is_never() ? Clock::duration::max()
                      : std::max(Clock::duration::zero(), at_ - Clock::now());
  }

  // The earlier of the two.
  [[nodiscard]] friend Deadline earlier(const Deadline& a, const Deadline& b) {
    return a.at_ < b.at_ ? a : b;
  }

 private:
  Clock::time_point at_ = Clock::time_point::max();
};

inline constexpr Deadline kForever{};

[[nodiscard]] Deadline in_seconds(double seconds);
[[nodiscard]] Deadline in_ms(double milliseconds);

// Waits until `fd` has one of `events` (POLLIN, POLLOUT, …), an error or a hang-up.
// False at the deadline. Signals do not end the wait.
[[nodiscard]] bool wait_ready(int fd, short events, Deadline deadline);

}  // namespace shoal
