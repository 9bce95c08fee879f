#pragma once

#include <atomic>
#include <cstdint>

#include "shoal/runtime/base/deadline.h"

// Sleeping on a word that several processes share. (std::atomic::wait would not do: libstdc++ waits
// on private futexes, which other processes cannot wake.)
//
// The word may lie in any shared mapping. Whoever changes it calls futex_wake afterwards; a waiter
// that is killed leaves nothing behind.
namespace shoal {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(FutexWord::is_always_lock_free && sizeof(FutexWord) == sizeof(std::uint32_t));

// Sleeps until `word` is woken, while it contains `expected`. False at the deadline. May return
// true without a reason, so callers look at the word again.
[[nodiscard]] bool futex_wait(const FutexWord& word, std::uint32_t expected, Deadline deadline);

// Wakes up to `count` waiters.
void futex_wake(const FutexWord& word, int count = INT32_MAX) noexcept;

}  // namespace shoal
