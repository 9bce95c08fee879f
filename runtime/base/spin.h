#pragma once

#include <chrono>

// Looking for a moment before sleeping. To sleep and be woken costs some 10 us, to see a word
// change a tenth of one; so who is likely to be served at once looks first.
namespace shoal {

// How many CPUs this process may run on.
[[nodiscard]] int usable_cpus() noexcept;

// Tells the CPU that this is a loop that waits.
inline void relax_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls `done` for some 30 us, until it is true; returns what it said last. Looks only once where
// `parties` threads, of which this is one, have not a CPU each: they would wait for this one's.
template <class Done>
[[nodiscard]] bool spin_until(int parties, Done&& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kLongest{30};
  constexpr int kLooksPerClock = 32;
  if (done()) return true;
  if (parties > usable_cpus()) return false;
  const auto end = Clock::now() + kLongest;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (done()) return true;
      relax_cpu();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace shoal
