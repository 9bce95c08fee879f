#include <algorithm>

#include "shoal/runtime/shm/manager_client.h"
#include "shoal/runtime/shm/segment_pool_state.h"

// The pool around the forks and the end of its process.
namespace shoal {

void PoolState::remember_flight(const std::shared_ptr<Flight>& flight) {
  if (flights.size() >= prune_flights_at) {
    std::erase_if(flights, [](const auto& known) { return known.expired(); });
    prune_flights_at = 64 + 2 * flights.size();
  }
  flights.push_back(flight);
}

// Names first, holds never: threads of a process that is about to end may still use what they have,
// and the kernel lets go of it at the end.
void PoolState::leave_named_segments() {
  Shelf& shelf = shelves[static_cast<std::size_t>(SharingStrategy::file_system)];
  strike_dead(shelf);
  reclaim(shelf);
  for (const auto& [id, home] : segments) {
    Segment& segment = *home->segment;
    if (segment.strategy() != SharingStrategy::file_system) continue;
    // Others that have it mapped, but use nothing of it, have no need of its name.
    if (home->ranges && home->busy_blocks.empty()) segment.remove_name();
    segment.leave();
    if (!home->ranges) continue;
    // No more blocks from it, which nobody could be sent.
    for (const auto& [index, busy] : home->busy_blocks) live_bytes -= busy.place.capacity;
    live_blocks -= home->busy_blocks.size();
    if (home->busy_blocks.empty()) empty_bytes -= segment.nbytes();
    home->ranges.reset();
    home->busy_blocks.clear();
  }
  shelf = {};
}

void PoolState::before_fork() noexcept {
  mutex.lock();
  manager::prepare_fork();
  for (const auto& [id, home] : segments) {
    std::vector<std::uint32_t> held;
    held.reserve(home->live_count);
    for (std::uint32_t index = 0; index < home->live.size(); ++index)
      if (home->live[index] != nullptr) held.push_back(index);
    home->segment->prepare_fork(held);
  }
}

void PoolState::after_fork_in_parent() noexcept {
  for (const auto& [id, home] : segments) home->segment->after_fork_in_parent();
  manager::after_fork_in_parent();
  mutex.unlock();
}

void PoolState::after_fork_in_child() noexcept {
  manager::after_fork_in_child();
  // What the parent made stays the parent's to hand out.
  shelves = {};
  live_bytes = live_blocks = empty_bytes = 0;
  blocks_made = reuses = 0;
  reaped = false;
  // Of threads that this process does not have: they would keep alive what is none of its business.
  for (const auto& flight : flights)
    if (const auto open = flight.lock()) open->memory.reset();
  flights.clear();
  for (const auto& [id, home] : segments) {
    for (Arrival* arrival : home->arrivals) arrival->memory_.reset();
    home->arrivals.clear();
    home->segment->after_fork_in_child();
    home->ranges.reset();
    home->busy_blocks.clear();
    home->free_indices.clear();
  }
  std::erase_if(segments, [](const auto& entry) { return entry.second->is_idle(); });
  mutex.unlock();
}

}  // namespace shoal
