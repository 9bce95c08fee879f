#pragma once

#include <cstdint>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {

// How messages share a flight; part of the wire format.
enum class FlightKind : std::uint8_t {
  // Many messages of one sender, no block in two of them. The receiver of each takes its holds
  // away.
  shared = 0,
  // One message. Its receiver frees the slot.
  single = 1,
  // Many messages, any blocks; their holds end all together, when the last one has been received.
  // For when slots run short.
  pooled = 2,
};

// A batch of messages on their way that name blocks of one segment: a slot, and an open file with
// the lock on it, of which every message carries a descriptor.
//
// So what a message holds counts as held until it is received or dropped, even if its sender has
// ended by then; and if it is dropped, the kernel says so, once the sender has closed the flight.
struct Flight {
  Fd memory;
  Slot slot = 0;
  FlightKind kind = FlightKind::shared;
  std::vector<std::uint32_t> blocks;  // that messages took along, for the sender to look after
};

// Messages per flight; the last ones to be received decide when a pooled flight's holds end.
inline constexpr std::size_t kMostPerFlight = 64;

}  // namespace shoal
