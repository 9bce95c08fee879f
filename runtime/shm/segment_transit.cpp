#include <algorithm>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/segment_pool_state.h"

// Blocks on their way to other processes and from them.
namespace shoal {

std::vector<Departure> SegmentPool::depart(std::span<const std::shared_ptr<SharedBlock>> blocks) {
  std::vector<Departure> departures;
  const std::scoped_lock hold(state_->mutex);
  for (const auto& block : blocks) {
    const auto& segment = block->home_->segment;
    const auto at = std::ranges::find(departures, segment, &Departure::segment);
    Departure& departure =
        at == departures.end()
            ? departures.emplace_back(Departure{segment->id(), segment, nullptr, {}})
            : *at;
    departure.blocks.push_back(block->index_);
  }
  try {
    for (Departure& departure : departures)
      departure.flight = departure.segment->depart(departure.blocks);
  } catch (...) {
    for (const Departure& departure : departures)
      if (departure.flight != nullptr)
        departure.segment->abandon(*departure.flight, departure.blocks);
    throw;
  }
  return departures;
}

void SegmentPool::abandon(std::span<const Departure> departures) noexcept {
  const std::scoped_lock hold(state_->mutex);
  for (const Departure& departure : departures)
    departure.segment->abandon(*departure.flight, departure.blocks);
}

std::unique_ptr<Arrival> SegmentPool::arrive(const SegmentId& id, Fd memory, FlightKind kind,
                                             Slot flight) {
  const std::scoped_lock hold(state_->mutex);
  const auto known = state_->segments.find(id);
  PoolSegment* home = nullptr;
  if (known != state_->segments.end()) {
    home = known->second.get();
  } else {
    check(static_cast<bool>(memory), ErrorKind::malformed, "receive",
          "a handle came without its descriptor");
    state_->drop_idle(true);
    home = &state_->add(std::make_shared<Segment>(memory, id));
  }
  return std::unique_ptr<Arrival>(new Arrival(*state_, *home, std::move(memory), kind, flight));
}

Arrival::Arrival(PoolState& state, PoolSegment& home, Fd memory, FlightKind kind, Slot flight)
    : state_(&state), home_(&home), memory_(std::move(memory)), kind_(kind), flight_(flight) {
  ++home_->arrivals;
}

Arrival::~Arrival() {
  const std::scoped_lock hold(state_->mutex);
  for (const auto& [index, taken] : expected_)
    if (!taken) home_->segment->refuse(index, kind_, flight_);
  --home_->arrivals;
  if (home_->is_idle()) state_->drop_idle(false);
}

void Arrival::refuse(const BlockHandle& handle, const char* why) const {
  throw Error({.kind = ErrorKind::malformed,
               .call = "receive",
               .subject = concat("block ", handle.index, " of segment ",
                                 home_->segment->id().to_string()),
               .reason = why});
}

std::shared_ptr<SharedBlock> Arrival::take(const BlockHandle& handle) {
  const std::scoped_lock hold(state_->mutex);
  Segment& segment = *home_->segment;
  if (handle.nbytes == 0 || handle.offset % alignof(HolderSet) != 0 ||
      handle.offset >= segment.nbytes() || handle.nbytes > segment.nbytes() - handle.offset)
    refuse(handle, "reaches outside");
  const auto living = home_->live.find(handle.index);
  const bool lives = living != home_->live.end();
  if (lives && (living->second->offset() != handle.offset ||
                living->second->nbytes() != handle.nbytes))
    refuse(handle, "is another range here");
  if (home_->ranges && !lives) {
    const auto place = home_->places.find(handle.index);
    if (place == home_->places.end() || place->second.offset != handle.offset ||
        handle.nbytes > place->second.capacity)
      refuse(handle, "is not in use");
  }
  // Most messages take in the order in which they announced.
  std::size_t looked = 0;
  while (looked < expected_.size() && expected_[next_].index != handle.index) {
    next_ = (next_ + 1) % expected_.size();
    ++looked;
  }
  if (looked == expected_.size()) refuse(handle, "was not announced");
  if (!expected_[next_].taken) {
    if (!segment.arrive(handle.index, kind_, flight_)) refuse(handle, "is not held by the message");
    expected_[next_].taken = true;
  }
  if (lives)
    if (auto block = living->second->weak_from_this().lock()) return block;
  std::shared_ptr<SharedBlock> block(
      new SharedBlock(*home_, handle.index, handle.offset, handle.nbytes, false));
  home_->live[handle.index] = block.get();
  return block;
}

}  // namespace shoal
