#include <algorithm>

#include "shoal/runtime/shm/segment_pool_state.h"

// Memory that was used before: where it is found, and when it is given up.
namespace shoal {
namespace {

// How many blocks that others hold are looked at for one allocation.
constexpr std::size_t kLooks = 16;

// Whether others are alive costs a system call each time it is asked.
constexpr std::chrono::milliseconds kLookInterval{100};

// A place for `capacity` in a segment that has one. A large block has its segment to itself.
std::optional<Used> carve(Shelf& shelf, std::size_t capacity) {
  const SizeKind kind = kind_of(capacity);
  auto& segments = shelf.segments[static_cast<std::size_t>(kind)];
  for (auto at = segments.rbegin(); at != segments.rend(); ++at) {
    PoolSegment& home = **at;
    const std::size_t most = home.ranges->largest();
    if (most < capacity) continue;
    if (kind == SizeKind::large && (!home.busy_blocks.empty() || most - capacity > capacity / 4))
      continue;
    const std::size_t taken = kind == SizeKind::large ? most : capacity;
    const auto offset = home.ranges->allocate(taken);
    std::uint32_t index = home.next_index;
    if (home.free_indices.empty()) {
      ++home.next_index;
    } else {
      index = home.free_indices.back();
      home.free_indices.pop_back();
    }
    return Used{&home, index, {*offset, taken}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Used> PoolState::find(Shelf& shelf, std::size_t capacity) {
  if (const auto at = shelf.bins.find(capacity); at != shelf.bins.end()) {
    Bin& bin = at->second;
    if (bin.free.empty()) look_at_given(shelf, bin, kLooks);
    if (!bin.free.empty()) {
      const Used used = bin.free.back();
      bin.free.pop_back();
      return used;
    }
  }
  if (auto found = carve(shelf, capacity)) return found;
  reclaim(shelf);
  join_ranges(shelf);
  if (auto found = carve(shelf, capacity)) return found;
  strike_dead(shelf);
  reclaim(shelf);
  join_ranges(shelf);
  return carve(shelf, capacity);
}

void PoolState::set_busy(PoolSegment& home, std::uint32_t index, Place place) {
  if (home.busy_blocks.empty()) empty_bytes -= home.segment->nbytes();
  home.busy_blocks.emplace(index, Busy{place});
  ++live_blocks;
  live_bytes += place.capacity;
}

void PoolState::set_free(Shelf& shelf, const Used& used) {
  used.home->busy_blocks.erase(used.index);
  --live_blocks;
  live_bytes -= used.place.capacity;
  if (used.home->busy_blocks.empty()) empty_bytes += used.home->segment->nbytes();
  shelf.bins[used.place.capacity].free.push_back(used);
}

void PoolState::look_at_given(Shelf& shelf, Bin& bin, std::size_t most) {
  for (std::size_t looks = std::min(most, bin.given.size()); looks > 0; --looks) {
    const Used used = bin.given.front();
    bin.given.pop_front();
    if (used.home->find_live(used.index) != nullptr) {
      // It came home with a message.
      used.home->busy_blocks.at(used.index).listed = false;
    } else if (used.home->segment->is_free(used.index)) {
      set_free(shelf, used);
    } else {
      bin.given.push_back(used);
    }
  }
}

void PoolState::reclaim(Shelf& shelf) {
  for (auto& [capacity, bin] : shelf.bins) look_at_given(shelf, bin, bin.given.size());
}

void PoolState::strike_dead(Shelf& shelf) {
  for (const auto& of_kind : shelf.segments) {
    for (PoolSegment* home : of_kind) {
      // Only blocks that were let go here can be waiting for a dead holder.
      if (home->busy_blocks.size() == home->live_count) continue;
      home->segment->close_flight();
      home->segment->strike_dead();
    }
  }
}

void PoolState::join_ranges(Shelf& shelf) {
  for (auto& [capacity, bin] : shelf.bins) {
    for (const Used& used : bin.free) {
      used.home->ranges->release(used.place.offset, used.place.capacity);
      used.home->free_indices.push_back(used.index);
    }
    bin.free.clear();
  }
  std::erase_if(shelf.bins, [](const auto& entry) { return entry.second.given.empty(); });
}

void PoolState::trim(std::size_t keep_bytes) {
  for (Shelf& shelf : shelves) {
    if (empty_bytes <= keep_bytes) return;
    join_ranges(shelf);
    for (std::size_t kind = 0; kind < shelf.segments.size(); ++kind) {
      std::erase_if(shelf.segments[kind], [&](PoolSegment* home) {
        if (!home->busy_blocks.empty() || !home->arrivals.empty() || empty_bytes <= keep_bytes)
          return false;
        empty_bytes -= home->segment->nbytes();
        shelf.bytes[kind] -= home->segment->nbytes();
        home->segment->retire();
        remove(*home);
        return true;
      });
    }
  }
}

void PoolState::drop_idle(bool look) {
  std::size_t idle_bytes = 0;
  std::erase_if(segments, [&](const auto& entry) {
    const PoolSegment& home = *entry.second;
    if (look && !home.ranges) home.segment->close_flight();
    if (!home.is_idle()) return false;
    idle_bytes += home.segment->nbytes();
    return idle_bytes > options.max_idle_attached_bytes || (look && home.segment->owner_is_gone());
  });
}

void PoolState::look_after_others() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked < kLookInterval) return;
  looked = now;
  for (Shelf& shelf : shelves) reclaim(shelf);
  if (empty_bytes > options.max_cached_bytes) trim(options.max_cached_bytes);
  drop_idle(true);
}

}  // namespace shoal
