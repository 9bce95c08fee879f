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
    for (Departure& departure : departures) {
      const auto open = departure.segment->open_one();
      departure.flight = departure.segment->depart(departure.blocks);
      if (departure.flight != open) state_->remember_flight(departure.flight);
    }
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
    if (!home->segment->takes_part() && memory) home->segment->rejoin(memory);
  } else {
    check(static_cast<bool>(memory), ErrorKind::malformed, "receive",
          "a handle came without its descriptor");
    state_->look_after_others();
    home = &state_->add(std::make_shared<Segment>(memory, id));
  }
  return std::unique_ptr<Arrival>(new Arrival(*state_, *home, std::move(memory), kind, flight));
}

Arrival::Arrival(PoolState& state, PoolSegment& home, Fd memory, FlightKind kind, Slot flight)
    : state_(&state), home_(&home), memory_(std::move(memory)), kind_(kind), flight_(flight) {
  home_->arrivals.push_back(this);
}

Arrival::~Arrival() {
  const std::scoped_lock hold(state_->mutex);
  for (const auto& [index, taken] : expected_)
    if (!taken) home_->segment->refuse(index, kind_, flight_);
  memory_.reset();  // before we may be the last to leave
  std::erase(home_->arrivals, this);
  if (home_->is_idle()) state_->drop_idle(false);
}

void Arrival::expect(const BlockHandle& handle) {
  expected_.push_back({handle.index, false});
  home_->segment->fetch_holders(handle.index);
}

void Arrival::refuse(const BlockHandle& handle, const char* why) const {
  throw Error(
      {.kind = ErrorKind::malformed,
       .call = "receive",
       .subject = concat("block ", handle.index, " of segment ", home_->segment->id().to_string()),
       .reason = why});
}

std::shared_ptr<SharedBlock> Arrival::take(const BlockHandle& handle) {
  const std::scoped_lock hold(state_->mutex);
  Segment& segment = *home_->segment;
  if (handle.index >= segment.blocks() || handle.nbytes == 0 ||
      handle.offset % alignof(HolderSet) != 0 || handle.offset >= segment.nbytes() ||
      handle.nbytes > segment.nbytes() - handle.offset)
    refuse(handle, "reaches outside");
  const SharedBlock* const living = home_->find_live(handle.index);
  if (living != nullptr && (living->offset() != handle.offset || living->nbytes() != handle.nbytes))
    refuse(handle, "is another range here");
  if (home_->ranges && living == nullptr) {
    const auto busy = home_->busy_blocks.find(handle.index);
    if (busy == home_->busy_blocks.end() || busy->second.place.offset != handle.offset ||
        handle.nbytes > busy->second.place.capacity)
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
    if (!segment.arrive(handle.index, kind_, flight_)) {
      if (living == nullptr) segment.let_go(handle.index);
      refuse(handle, "is not held by the message");
    }
    expected_[next_].taken = true;
  } else {
    segment.hold(handle.index);  // which may have been let go since
  }
  if (living != nullptr)
    if (auto block = home_->live[handle.index]->weak_from_this().lock()) return block;
  return home_->enter(handle.index, handle.offset, handle.nbytes, false);
}

}  // namespace shoal
