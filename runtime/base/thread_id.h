#pragma once

#include <cstdint>

namespace shoal {

// A thread as its own process knows it, for people: both numbers repeat.
struct ThreadId {
  std::uint32_t pid = 0, tid = 0;
  friend bool operator==(const ThreadId&, const ThreadId&) = default;
};

// The calling thread, without asking the kernel every time. A forked child has its own.
[[nodiscard]] ThreadId this_thread() noexcept;

}  // namespace shoal
