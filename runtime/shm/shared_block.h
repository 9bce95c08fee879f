#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/sharing_strategy.h"
#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {

struct PoolSegment;
struct PoolState;

// A range of shared memory, for as long as this process holds it; its destruction gives the hold
// back. At most one exists in a process for one block. 64-byte aligned; at a page's start if it is
// a page or larger. A forked child holds what it inherits on its own account.
//
// Made by SegmentPool. All calls are safe from many threads.
class SharedBlock : public std::enable_shared_from_this<SharedBlock> {
  struct Key {};

 public:
  // For the pool.
  SharedBlock(Key key, PoolSegment& home, std::uint32_t index, std::size_t offset,
              std::size_t nbytes, bool fresh);
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  ~SharedBlock();

  [[nodiscard]] std::byte* data() const { return data_; }
  // As many as were asked for.
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  // The same bytes, mapped so that a write to them raises SIGSEGV. Throws Error if mapping fails.
  [[nodiscard]] const std::byte* read_only_data() const;

  [[nodiscard]] SharingStrategy strategy() const;
  [[nodiscard]] const SegmentId& segment_id() const;
  // file_system: of its segment, under /dev/shm. Otherwise empty.
  [[nodiscard]] std::string segment_name() const;
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::size_t offset() const { return offset_; }

  // For a block just made: whether nobody had ever written there, so that it is all zero.
  [[nodiscard]] bool is_fresh() const { return fresh_; }
  // For a block just made: copies nbytes() from `from`, or makes it all zero, or only readies it
  // for writing, in the way that is fastest for memory never touched and for memory used before.
  void fill_from(const void* from);
  void fill_zero() noexcept;
  void prefault() noexcept;

  // What a layer above made over these bytes, to be found again when the block comes again; one
  // that may be written to and one that may not. That layer guards it.
  [[nodiscard]] std::weak_ptr<void>& made_over(bool read_only) {
    return made_over_[read_only ? 1 : 0];
  }

  // This process among those that have the segment mapped: a number that no other living process
  // has. And whether another's owner lives, and its process id, which is for people.
  [[nodiscard]] Slot slot() const;
  [[nodiscard]] bool is_alive(Slot slot) const;
  [[nodiscard]] std::uint32_t pid_of(Slot slot) const;

 private:
  friend class Arrival;
  friend class SegmentPool;
  friend struct PoolSegment;
  friend struct PoolState;

  PoolSegment* home_;  // lives as long as any block of it
  std::byte* data_;
  std::uint32_t index_;
  bool fresh_;
  std::size_t offset_, nbytes_;
  std::array<std::weak_ptr<void>, 2> made_over_;
};

}  // namespace shoal
