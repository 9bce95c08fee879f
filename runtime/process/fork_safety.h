#pragma once

namespace shoal {

// Throws Error(unsupported) naming the way out if a process forked now would not be safe to go on:
// something is in use that does not survive it (fork_guard.h), or another thread runs, which may
// have locked anything. Threads of Shoal's own lock nothing. `with_threads`: the caller knows that
// the others have not, either. Private to this folder.
void check_may_fork(bool with_threads);

// A thread of Shoal's own is about to start in this process, which will not lock anything nor end.
void count_own_thread() noexcept;

}  // namespace shoal
