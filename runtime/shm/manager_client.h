#pragma once

#include <string>

#include "shoal/runtime/shm/segment_layout.h"

// This process as a client of the manager. The library's own calls, made where the pool's lock is
// held; they do nothing with SHOAL_MANAGER=off.
namespace shoal::manager {

// An id whose segment_name with this prefix is nobody's yet, and which the manager knows this
// process to hold; so whenever the process is killed, the name goes at once. Connects first if need
// be, starts a private manager where there is none, and after its end connects to the next one and
// tells it all. Throws Error naming the path tried, errno, and what the manager wrote to standard
// error, if within two seconds there is none to be had; one that has answered before may take ten.
//
// The manager is told of 16 names at a time, before they are needed: who makes many segments waits
// for it once in so many.
[[nodiscard]] SegmentId hold_new(const std::string& prefix);
// From now on the manager knows that this process holds a segment that others made, if a manager is
// there. What comes of it is not the caller's affair: whoever made the segment has seen to it that
// it is watched.
void hold_if_reachable(const std::string& name) noexcept;
// The process holds it no more. A manager that cannot be told finds out by itself.
void release(const std::string& name) noexcept;
// The same for a name that is not in use, or not any more. Nobody has to see to it, so the manager
// is told when there are more such.
void forget(const std::string& name) noexcept;

// Around fork, as Segment's: the child gets a connection of its own, opened before, so that its
// death is noticed, too.
void prepare_fork() noexcept;
void after_fork_in_parent() noexcept;
void after_fork_in_child() noexcept;

}  // namespace shoal::manager
