#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shoal {

// Small segments that may be made without another look at what is left, which takes longer than to
// make one. After a look, a small part of the room that it found is given away for a tenth of a
// second: others do the same meanwhile, and a thousand of them together take a quarter of it.
//
// Lock-free, for all threads of a process. Both words are relaxed: whoever mixes an old one with a
// new one takes from one credit or the other, and each of them was found.
class BudgetCredit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kMost = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kShare = 4096;
  static constexpr std::chrono::milliseconds kLasts{100};

  // Whether the segment is small enough, and the credit young and large enough.
  [[nodiscard]] bool take(std::uint64_t nbytes, Time now) noexcept {
    if (nbytes > kMostAtOnce || now.time_since_epoch().count() >= ends_.load(kRelaxed))
      return false;
    const auto wanted = static_cast<std::int64_t>(nbytes);
    return left_.fetch_sub(wanted, kRelaxed) >= wanted;
  }
  // After a look that found `room` bytes.
  void grant(std::uint64_t room, Time now) noexcept {
    const std::uint64_t share = room / kShare;
    left_.store(static_cast<std::int64_t>(share < kMost ? share : kMost), kRelaxed);
    ends_.store((now + kLasts).time_since_epoch().count(), kRelaxed);
  }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  std::atomic<std::int64_t> left_{0};
  std::atomic<Time::rep> ends_{0};
};

}  // namespace shoal
