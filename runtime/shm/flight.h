#pragma once

#include <cstdint>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {

// How messages share a flight; part of the wire format.
enum class FlightKind : std::uint8_t {
  // No block is in two of them. The receiver of each takes its holds away.
  apart = 0,
  // Any blocks; their holds end all together, when the last message has been received. For when
  // slots run short.
  pooled = 1,
};

// A batch of messages on their way that name blocks of one segment: a slot, and an open file with
// the lock on it, of which every message carries a descriptor.
//
// So what a message holds counts as held until it is received or dropped, even if its sender has
// ended by then; and if it is dropped, the kernel says so, once the sender has closed the flight. A
// sender does so when kMostPerFlight blocks of it are on their way; the owner of the segment also
// when it runs short of memory; others also when they wait for a message in vain, and at their end.
struct Flight {
  Fd memory;
  Slot slot = 0;
  FlightKind kind = FlightKind::apart;
  std::vector<std::uint32_t> blocks;  // that messages took along, for the sender to look after
};

inline constexpr std::size_t kMostPerFlight = 64;

}  // namespace shoal
