#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shoal/runtime/shm/range_allocator.h"
#include "shoal/runtime/shm/segment.h"
#include "shoal/runtime/shm/segment_pool.h"

// What the pool knows; all of it is guarded by PoolState::mutex. Not for users.
namespace shoal {

// Where a block lies in its segment, with what was set aside for it.
struct Place {
  std::size_t offset = 0;
  std::size_t capacity = 0;
};

// A block that somebody holds, here or elsewhere, as far as we know.
struct Busy {
  Place place{};
  bool listed = false;  // among the bin's given ones
};

// A segment as this process uses it.
struct PoolSegment {
  explicit PoolSegment(std::shared_ptr<Segment> mapped) : segment(std::move(mapped)) {}

  std::shared_ptr<Segment> segment;
  std::vector<SharedBlock*> live;  // blocks used in this process, by index; null for others
  std::size_t live_count = 0;
  std::vector<Arrival*> arrivals;  // messages being unpacked

  // --- Of segments made here.
  std::optional<RangeAllocator> ranges;
  std::vector<std::uint32_t> free_indices;
  std::uint32_t next_index = 0;
  std::size_t touched = 0;  // from here on nobody has written anything
  std::unordered_map<std::uint32_t, Busy> busy_blocks;

  // The block that stands for this range in this process from now on.
  [[nodiscard]] std::shared_ptr<SharedBlock> enter(std::uint32_t index, std::size_t offset,
                                                   std::size_t nbytes, bool fresh);
  [[nodiscard]] SharedBlock* find_live(std::uint32_t index) const {
    return index < live.size() ? live[index] : nullptr;
  }
  [[nodiscard]] bool is_idle() const { return live_count == 0 && arrivals.empty() && !ranges; }
};

// A block that is to be handed out again.
struct Used {
  PoolSegment* home = nullptr;
  std::uint32_t index = 0;
  Place place{};
};

// Blocks of one capacity.
struct Bin {
  std::vector<Used> free;  // the last one freed goes first: it may still be in the cache
  std::deque<Used> given;  // let go here, held elsewhere when last looked at; each once
};

enum class SizeKind { small, medium, large };

// What was made under one strategy.
struct Shelf {
  std::map<std::size_t, Bin> bins;                    // by capacity
  std::array<std::vector<PoolSegment*>, 3> segments;  // by SizeKind
  std::array<std::size_t, 3> bytes{};
};

struct PoolState {
  mutable std::mutex mutex;
  SegmentPoolOptions options;
  std::map<SegmentId, std::unique_ptr<PoolSegment>> segments;
  std::array<Shelf, 2> shelves;  // by SharingStrategy
  std::size_t live_bytes = 0, live_blocks = 0, empty_bytes = 0;
  std::uint64_t blocks_made = 0, reuses = 0;
  std::chrono::steady_clock::time_point looked;  // when it last looked after others
  std::vector<std::weak_ptr<Flight>> flights;    // for a forked child to close
  std::size_t prune_flights_at = 64;
  bool reaped = false;

  // --- segment_pool.cpp: making blocks.
  std::shared_ptr<SharedBlock> allocate(std::size_t nbytes, SharingStrategy strategy);
  void give_back(SharedBlock& block);
  PoolSegment& add(std::shared_ptr<Segment> segment);
  void remove(PoolSegment& home);

  // --- segment_recycling.cpp: finding memory that was used before, and giving it up.
  std::optional<Used> find(Shelf& shelf, std::size_t capacity);
  void set_free(Shelf& shelf, const Used& used);
  void set_busy(PoolSegment& home, std::uint32_t index, Place place);
  void look_at_given(Shelf& shelf, Bin& bin, std::size_t most);
  void reclaim(Shelf& shelf);
  void strike_dead(Shelf& shelf);
  void join_ranges(Shelf& shelf);
  void trim(std::size_t keep_bytes);
  void drop_idle(bool look);
  // At most ten times a second: takes back what others have let go of, within the limits.
  void look_after_others();

  // --- segment_pool_lifetime.cpp: forks and the end.
  void remember_flight(const std::shared_ptr<Flight>& flight);
  void leave_named_segments();
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;
};

[[nodiscard]] SizeKind kind_of(std::size_t capacity);
// What is set aside for so many bytes: at most an eighth more, so that similar sizes fit each
// other.
[[nodiscard]] std::size_t capacity_for(std::size_t nbytes);

}  // namespace shoal
