#include "shoal/runtime/shm/segment_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/descriptor_limit.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment_pool_state.h"

namespace shoal {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::size_t kSmallest = 64;           // a cache line
constexpr std::size_t kMostSmall = 2 * kKiB;    // blocks in multiples of a cache line
constexpr std::size_t kMostMedium = 16 * kMiB;  // blocks in multiples of a page

// How large segments start, and how large they grow: each new one as large as all before, so that
// their number grows with the logarithm of what is in use, and little is set aside for little.
struct Growth {
  std::size_t least, most, granule;
};
constexpr Growth kGrowth[] = {{256 * kKiB, 16 * kMiB, kSmallest}, {kMiB, 64 * kMiB, kPageSize}};

}  // namespace

SizeKind kind_of(std::size_t capacity) {
  return capacity <= kMostSmall    ? SizeKind::small
         : capacity <= kMostMedium ? SizeKind::medium
                                   : SizeKind::large;
}

std::size_t capacity_for(std::size_t nbytes) {
  // Sizes that no file can have are left for the kernel to refuse.
  if (nbytes > std::size_t{1} << 62) return nbytes;
  const std::size_t step =
      nbytes <= kMostSmall ? kSmallest : std::max(kPageSize, std::bit_floor(nbytes) / 8);
  return (nbytes + step - 1) / step * step;
}

// --- Segments of this process.

std::shared_ptr<SharedBlock> PoolSegment::enter(std::uint32_t index, std::size_t offset,
                                                std::size_t nbytes, bool fresh) {
  // First the entry: nothing may fail once there is a block, whose destructor would want the lock.
  if (index >= live.size()) live.resize(index + 1);
  auto block =
      std::make_shared<SharedBlock>(SharedBlock::Key{}, *this, index, offset, nbytes, fresh);
  live_count += live[index] == nullptr;
  live[index] = block.get();
  return block;
}

PoolSegment& PoolState::add(std::shared_ptr<Segment> segment) {
  const SegmentId id = segment->id();
  auto made = std::make_unique<PoolSegment>(std::move(segment));
  return *(segments[id] = std::move(made));
}

void PoolState::remove(PoolSegment& home) { segments.erase(SegmentId(home.segment->id())); }

namespace {

PoolSegment& make(PoolState& state, SharingStrategy strategy, std::size_t nbytes,
                  std::size_t granule) {
  const auto blocks =
      static_cast<std::uint32_t>(granule == 0 ? 1 : std::max<std::size_t>(1, nbytes / granule));
  PoolSegment& home = state.add(std::make_shared<Segment>(nbytes, blocks, strategy));
  home.ranges.emplace(nbytes);
  return home;
}

// A segment for blocks of `capacity`: first one with room for more, and if that is too much, for
// one block alone.
PoolSegment& grow(PoolState& state, SharingStrategy strategy, std::size_t capacity) {
  if (strategy == SharingStrategy::file_system && !state.reaped) {
    // Whatever earlier processes left, the first to come tidies up.
    state.reaped = true;
    reap_orphans();
  }
  Shelf& shelf = state.shelves[static_cast<std::size_t>(strategy)];
  const auto kind = static_cast<std::size_t>(kind_of(capacity));
  const bool large = kind_of(capacity) == SizeKind::large;
  const std::size_t granule = large ? 0 : kGrowth[kind].granule;
  const std::size_t wanted =
      large ? capacity
            : std::max(capacity,
                       std::clamp(shelf.bytes[kind], kGrowth[kind].least, kGrowth[kind].most));
  PoolSegment* home = nullptr;
  try {
    home = &make(state, strategy, wanted, granule);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::no_space && error.kind() != ErrorKind::limit_reached) throw;
    for (Shelf& other : state.shelves) {
      state.strike_dead(other);
      state.reclaim(other);
    }
    state.trim(0);
    home = &make(state, strategy, capacity, granule);
  }
  shelf.segments[kind].push_back(home);
  shelf.bytes[kind] += home->segment->nbytes();
  state.empty_bytes += home->segment->nbytes();
  return *home;
}

}  // namespace

std::shared_ptr<SharedBlock> PoolState::allocate(std::size_t nbytes, SharingStrategy strategy) {
  check(nbytes > 0, ErrorKind::invalid_argument, "SegmentPool::allocate", "a block of no bytes");
  const std::size_t capacity = capacity_for(nbytes);
  Shelf& shelf = shelves[static_cast<std::size_t>(strategy)];
  std::optional<Used> used = find(shelf, capacity);
  if (!used) {
    PoolSegment& home = grow(*this, strategy, capacity);
    const auto offset = home.ranges->allocate(capacity);
    used = Used{&home, home.next_index++, {*offset, capacity}};
  }
  PoolSegment& home = *used->home;
  const auto [offset, room] = used->place;
  const bool fresh = offset >= home.touched;
  home.touched = std::max(home.touched, offset + room);
  ++blocks_made;
  reuses += !fresh;
  set_busy(home, used->index, used->place);
  home.segment->use(used->index);
  home.segment->hold(used->index);
  return home.enter(used->index, offset, nbytes, fresh);
}

void PoolState::give_back(SharedBlock& block) {
  PoolSegment& home = *block.home_;
  // A message may have brought the block again since nobody could be given this object any more.
  if (home.find_live(block.index_) != &block) return;
  home.live[block.index_] = nullptr;
  --home.live_count;
  home.segment->let_go(block.index_);
  if (!home.ranges) {
    if (home.is_idle()) drop_idle(false);
    return;
  }
  Shelf& shelf = shelves[static_cast<std::size_t>(home.segment->strategy())];
  Busy& busy = home.busy_blocks.at(block.index_);
  const Used used{&home, block.index_, busy.place};
  if (home.segment->is_free(block.index_)) {
    if (!busy.listed) {
      set_free(shelf, used);
      if (empty_bytes > options.max_cached_bytes) trim(options.max_cached_bytes);
    }
  } else if (!busy.listed) {
    shelf.bins[used.place.capacity].given.push_back(used);
    busy.listed = true;
  }
  look_after_others();
}

// --- The pool.

SegmentPool::SegmentPool() : state_(new PoolState) {
  ::pthread_atfork([] { instance().state_->before_fork(); },
                   [] { instance().state_->after_fork_in_parent(); },
                   [] { instance().state_->after_fork_in_child(); });
  std::atexit([] { instance().leave_named_segments(); });
}

SegmentPool& SegmentPool::instance() {
  static auto* pool = new SegmentPool;  // blocks are still given back while statics are destroyed
  return *pool;
}

namespace {

// Made before there are threads: a child forked while another thread makes a static waits for that
// thread, which it does not have, for ever.
[[maybe_unused]] const SegmentPool& made_at_load = SegmentPool::instance();

}  // namespace

std::shared_ptr<SharedBlock> SegmentPool::allocate(std::size_t nbytes, SharingStrategy strategy) {
  // Once, and before the lock: it calls the host's log callback.
  static std::atomic<bool> raised{false};
  if (!raised.exchange(true, std::memory_order_relaxed)) (void)raise_descriptor_limit();
  const std::scoped_lock hold(state_->mutex);
  return state_->allocate(nbytes, strategy);
}

void SegmentPool::trim(std::size_t keep_bytes) {
  const std::scoped_lock hold(state_->mutex);
  for (Shelf& shelf : state_->shelves) {
    state_->strike_dead(shelf);
    state_->reclaim(shelf);
  }
  state_->trim(keep_bytes);
  state_->drop_idle(true);
}

void SegmentPool::look_after_others(bool now) noexcept {
  const std::scoped_lock hold(state_->mutex);
  if (now) state_->looked = {};
  try {
    state_->look_after_others();
  } catch (const std::exception&) {
    // No memory for the record; the next look goes on.
  }
}

void SegmentPool::set_options(const SegmentPoolOptions& options) {
  const std::scoped_lock hold(state_->mutex);
  state_->options = options;
  state_->trim(options.max_cached_bytes);
  state_->drop_idle(true);
}

SegmentPoolOptions SegmentPool::options() const {
  const std::scoped_lock hold(state_->mutex);
  return state_->options;
}

SegmentPoolStatistics SegmentPool::statistics() const {
  const std::scoped_lock hold(state_->mutex);
  SegmentPoolStatistics s{.live_bytes = state_->live_bytes,
                          .live_blocks = state_->live_blocks,
                          .blocks_made = state_->blocks_made,
                          .reuses = state_->reuses};
  std::size_t reserved = 0;
  for (const auto& [id, home] : state_->segments) {
    if (home->ranges) {
      ++s.segments;
      reserved += home->segment->nbytes();
    } else {
      ++s.attached_segments;
      s.attached_bytes += home->segment->nbytes();
    }
  }
  s.cached_bytes = reserved - s.live_bytes;
  return s;
}

void SegmentPool::leave_named_segments() noexcept {
  const std::scoped_lock hold(state_->mutex);
  try {
    state_->leave_named_segments();
  } catch (const std::exception&) {
    // Whoever reaps next finds the names.
  }
}

}  // namespace shoal
