#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/flight.h"
#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/shared_block.h"
#include "shoal/runtime/shm/sharing_strategy.h"

namespace shoal {

// How much unused memory the pool keeps, to hand out again without asking the kernel.
struct SegmentPoolOptions {
  // Segments of this process that no block is in use of; beyond this they are given back, as soon
  // as they are found.
  std::size_t max_cached_bytes = std::size_t{1} << 30;
  // Segments of others that nothing is used of at the moment stay mapped up to this much.
  std::size_t max_idle_attached_bytes = std::size_t{1} << 30;
};

struct SegmentPoolStatistics {
  std::size_t live_bytes = 0;         // in blocks that somebody holds, here or elsewhere
  std::size_t cached_bytes = 0;       // reserved, and held by nobody
  std::size_t live_blocks = 0;        // made here
  std::size_t segments = 0;           // made here; each is one descriptor and one mapping
  std::size_t attached_segments = 0;  // made by others
  std::size_t attached_bytes = 0;
  std::uint64_t blocks_made = 0;  // ever
  std::uint64_t reuses = 0;       // of those, in memory that had been used before
};

// Where a block lies, as a message says it.
struct BlockHandle {
  std::uint32_t index = 0;
  std::uint64_t offset = 0;
  std::uint64_t nbytes = 0;
};

class Segment;
struct PoolState;

// What a message carries for all its blocks of one segment, and what keeps them while it is sent.
struct Departure {
  SegmentId id;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Flight> flight;  // its descriptor is the message's; open as long as this lives
  std::vector<std::uint32_t> blocks;
};

// What a message brought for its blocks of one segment.
class Arrival;

// The shared memory of this process: what it made, and what it got from others.
//
// Small blocks are packed many to a segment, large ones have a segment of their own; so descriptors
// and mappings grow with bytes, not with blocks. A block is handed out again when no process and no
// message on its way holds it any more, the last used first, while it is in the cache. Holders that
// died are found when memory runs short, before the kernel is asked for more.
//
// One per process, made when the program is loaded and never destroyed. Safe from many threads, and
// across fork: the child has a pool of its own, and holds the blocks that it inherited. (Not across
// a raw clone system call, nor in a process that closes descriptors which it did not open.)
class SegmentPool {
 public:
  [[nodiscard]] static SegmentPool& instance();

  // At least one byte, contents undefined unless is_fresh(). Throws Error(no_space) and
  // Error(limit_reached) as Segment does.
  [[nodiscard]] std::shared_ptr<SharedBlock> allocate(std::size_t nbytes, SharingStrategy strategy);

  // Holds for one message with these blocks, one Departure for each segment. Throws Error.
  [[nodiscard]] std::vector<Departure> depart(std::span<const std::shared_ptr<SharedBlock>> blocks);
  void abandon(std::span<const Departure> departures) noexcept;

  // A message has come with a descriptor for this segment.
  [[nodiscard]] std::unique_ptr<Arrival> arrive(const SegmentId& id, Fd memory, FlightKind kind,
                                                Slot flight);

  // Gives unused memory back to the kernel until no more than `keep_bytes` of it are cached.
  void trim(std::size_t keep_bytes = 0);
  // Takes back what other processes have let go of, and unmaps segments of others that nothing is
  // used of and whose owner is gone. Happens by itself while blocks come and go, at most ten times
  // a second; for those who find that none come.
  void look_after_others(bool now = false) noexcept;
  void set_options(const SegmentPoolOptions& options);
  [[nodiscard]] SegmentPoolOptions options() const;
  [[nodiscard]] SegmentPoolStatistics statistics() const;

  // Removes the names of segments that nobody else needs, and gives up this process' part in those
  // with a name, as its end would: what others own may be handed out again from then on. For a
  // process that is about to end. Runs by itself at a normal exit.
  void leave_named_segments() noexcept;

 private:
  friend class Arrival;
  friend class SharedBlock;
  SegmentPool();
  PoolState* state_;
};

class Arrival {
 public:
  ~Arrival();  // What was not taken is let go.
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  // Announces a block that the message holds, so that it is let go if it is never taken.
  void expect(const BlockHandle& handle);
  // Of those announced; the same one more than once, too. Throws Error(malformed) for what the
  // message does not hold, or what lies outside.
  [[nodiscard]] std::shared_ptr<SharedBlock> take(const BlockHandle& handle);

 private:
  friend class SegmentPool;
  friend struct PoolState;
  Arrival(PoolState& state, PoolSegment& home, Fd memory, FlightKind kind, Slot flight);

  PoolState* state_;
  PoolSegment* home_;
  Fd memory_;  // keeps the flight's lock until this process holds what it takes
  FlightKind kind_;
  Slot flight_;
  struct Expected {
    std::uint32_t index = 0;
    bool taken = false;
  };
  [[noreturn]] void refuse(const BlockHandle& handle, const char* why) const;
  std::vector<Expected> expected_;
  std::size_t next_ = 0;  // where the next one is likely
};

}  // namespace shoal
