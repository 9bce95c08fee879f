#include <unistd.h>

#include <exception>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/log.h"
#include "shoal/runtime/shm/segment.h"

// A forked child goes on using what it inherited, so it has to hold it: its parent may let go and
// have the owner hand out the same memory again. The hold is made before the fork, under a slot of
// the child's own, so that there is no moment without it.
namespace shoal {

void Segment::prepare_fork(std::span<const std::uint32_t> held) noexcept {
  if (!takes_part_) return;
  try {
    childs_memory_ = reopen(memory_.get());
    childs_slot_ = take_slot(childs_memory_.get());
    for (const std::uint32_t block : held) holders(block).add(childs_slot_);
  } catch (const std::exception& error) {
    // No descriptor or slot to be had. The child will not be able to send these blocks; so that it
    // may at least read them, they are never handed out again.
    childs_memory_.reset();
    for (const std::uint32_t block : held) holders(block).add(kPinned);
    log_message(LogLevel::warning,
                concat("a forked child cannot send on ", held.size(),
                       " shared blocks, which stay unused from now on: ", error.what()));
  }
}

void Segment::after_fork_in_parent() noexcept { childs_memory_.reset(); }

void Segment::after_fork_in_child() noexcept {
  flight_.reset();
  owned_here_ = false;
  // Closing our copy lets the parent's lock be the parent's alone.
  memory_ = std::move(childs_memory_);
  takes_part_ = static_cast<bool>(memory_);
  slot_ = takes_part_ ? childs_slot_ : kPinned;
  if (takes_part_)
    control().takers[slot_].store(static_cast<std::uint32_t>(::getpid()),
                                  std::memory_order_release);
}

}  // namespace shoal
