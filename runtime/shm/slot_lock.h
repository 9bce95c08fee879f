#pragma once

#include <cstdint>

#include "shoal/runtime/base/fd.h"

// Proof of life for those who hold a segment: a lock on one byte of the segment's own file.
//
// Such a lock belongs to an open file, not to a process (F_OFD_SETLK): the kernel drops it when the
// last descriptor of that open file is closed, however that comes about. So a process lives as long
// as its lock, a message on its way as long as the descriptor in it; and anybody who can open the
// segment can ask, which a process id would not allow: those repeat across namespaces and time.
//
// The bytes locked are numbers only; nothing is stored there, and they may lie behind the end.
namespace shoal {

using Slot = std::uint16_t;

// The same file opened once more: locks taken through it are its own. Throws Error.
[[nodiscard]] Fd reopen(int fd);

// Takes the slot's lock if nobody else has it. Throws Error for any other failure.
[[nodiscard]] bool try_lock_slot(int fd, Slot slot);
void unlock_slot(int fd, Slot slot) noexcept;

// Whether another open file has the slot's lock. In doubt yes.
[[nodiscard]] bool slot_is_locked(int fd, Slot slot) noexcept;

// The same for all slots at once.
[[nodiscard]] bool any_slot_is_locked(int fd) noexcept;

// Takes all slots at once, which succeeds only if nobody else has any: then nobody holds the
// segment, and nobody can come to. False in doubt.
[[nodiscard]] bool try_lock_all_slots(int fd) noexcept;

}  // namespace shoal
