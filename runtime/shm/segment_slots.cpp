#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/segment.h"

// Who holds what of a segment: slots, and the flights of messages.
namespace shoal {
namespace {

// Below this many free slots messages share flights whatever blocks they bring.
constexpr int kScarce = 64;

// How often a free slot is looked for, a millisecond apart.
constexpr int kLooks = 20;

// Slots that flights leave to processes.
constexpr int kForProcesses = 32;

// A failure to ask means that nothing is known, so nothing is done.
bool try_lock_slot_quietly(int fd, Slot slot) noexcept {
  try {
    return try_lock_slot(fd, slot);
  } catch (const Error&) {
    return false;
  }
}

bool is_set(const SlotMask& mask, Slot slot) { return (mask[slot / 64] >> (slot % 64) & 1) != 0; }

}  // namespace

Slot Segment::take_slot(int fd) {
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (int look = 0; look < kLooks; ++look) {
    // Those that the dead left are cleaned only when there are no others. While another process
    // does that they are neither free nor to be had, for a moment that no event ends.
    if (look > 0 && !strike_dead()) ::poll(nullptr, 0, 1);
    for (Slot slot = kOwnerSlot + 1; slot < kPinned; ++slot) {
      std::atomic<std::uint32_t>& taker = control().takers[slot];
      if (taker.load(std::memory_order_acquire) != 0 || !try_lock_slot(fd, slot)) continue;
      // Under the lock nobody else changes it.
      if (taker.load(std::memory_order_acquire) == 0) {
        taker.store(self, std::memory_order_release);
        return slot;
      }
      unlock_slot(fd, slot);
    }
  }
  throw Error({.kind = ErrorKind::limit_reached,
               .call = "Segment",
               .subject = id_.to_string(),
               .reason = concat("all ", kSlots, " slots for holders are taken"),
               .remedy = "Let receivers catch up, or share with fewer processes at once"});
}

int Segment::free_slots() const noexcept {
  return static_cast<int>(std::ranges::count_if(control().takers, [](const auto& taker) {
    return taker.load(std::memory_order_relaxed) == 0;
  }));
}

void Segment::use(std::uint32_t block) noexcept {
  // Release: whoever looks at holders up to here finds this block's as it was made, empty.
  if (block >= control().used.load(std::memory_order_relaxed))
    control().used.store(block + 1, std::memory_order_release);
}

bool Segment::strike_dead() {
  if (!takes_part_ && !memory_) return false;
  SlotMask dead{};
  bool any = false;
  for (Slot slot = 0; slot < kPinned; ++slot) {
    if (slot == slot_ || control().takers[slot].load(std::memory_order_acquire) == 0) continue;
    // Taken until the end of this function, so that nobody takes the slot with its traces.
    if (!try_lock_slot_quietly(memory_.get(), slot)) continue;
    if (slot == kOwnerSlot) {
      // Its locks are taken by no one else, but its holds must go, too.
      control().retired.store(1, std::memory_order_release);
    }
    dead[slot / 64] |= std::uint64_t{1} << (slot % 64);
    any = true;
  }
  if (!any) return false;
  const std::uint32_t used = std::min(control().used.load(std::memory_order_acquire), blocks_);
  for (std::uint32_t block = 0; block < used; ++block) holders(block).remove_all(dead);
  for (Slot slot = 0; slot < kPinned; ++slot) {
    if (!is_set(dead, slot)) continue;
    control().takers[slot].store(0, std::memory_order_release);
    unlock_slot(memory_.get(), slot);
  }
  return true;
}

bool Segment::is_alive(Slot slot) const noexcept {
  return slot < kSlots && ((takes_part_ && slot == slot_) || slot_is_locked(memory_.get(), slot));
}

std::uint32_t Segment::taker(Slot slot) const noexcept {
  return slot < kSlots ? control().takers[slot].load(std::memory_order_acquire) : 0;
}

std::shared_ptr<Flight> Segment::open_flight() {
  auto flight = std::make_shared<Flight>();
  flight->memory = reopen(memory_.get());
  const bool scarce = free_slots() < kScarce && (!strike_dead() || free_slots() < kScarce);
  flight->slot = take_slot(flight->memory.get());
  flight->kind = scarce ? FlightKind::pooled : FlightKind::apart;
  return flight;
}

std::shared_ptr<Flight> Segment::depart(std::span<const std::uint32_t> blocks) {
  check(takes_part_, ErrorKind::unsupported, "Segment", "this process gave up its part in segment ",
        id_.to_string());
  for (const std::uint32_t block : blocks) fetch_holders(block);
  // But for pooled flights, each block may be in one message at a time: the receiver's taking it
  // must not end another's hold. Blocks that have been received no longer carry the flight's slot.
  const auto on_board = [this](std::uint32_t block) {
    return holders(block).contains(flight_->slot);
  };
  if (flight_ != nullptr && flight_->kind == FlightKind::apart) {
    if (flight_->blocks.size() + blocks.size() > kMostPerFlight)
      std::erase_if(flight_->blocks, [&](std::uint32_t block) { return !on_board(block); });
    if (std::ranges::any_of(blocks, on_board)) flight_.reset();
  }
  const bool full = flight_ != nullptr && flight_->blocks.size() >= kMostPerFlight;
  if (full && (flight_->kind == FlightKind::apart || free_slots() > kForProcesses)) flight_.reset();
  if (flight_ == nullptr) flight_ = open_flight();
  std::shared_ptr<Flight> flight = flight_;
  flight->blocks.insert(flight->blocks.end(), blocks.begin(), blocks.end());
  for (const std::uint32_t block : blocks) holders(block).add(flight->slot);
  return flight;
}

void Segment::abandon(const Flight& flight, std::span<const std::uint32_t> blocks) noexcept {
  // A pooled flight's holds may be another message's as well; they end with it.
  if (flight.kind == FlightKind::pooled) return;
  for (const std::uint32_t block : blocks) holders(block).remove(flight.slot);
}

bool Segment::arrive(std::uint32_t block, FlightKind kind, Slot flight) noexcept {
  if (!takes_part_ || block >= blocks_ || flight >= kPinned || flight == slot_) return false;
  HolderSet& set = holders(block);
  if (!set.contains(flight)) return false;
  set.add(slot_);
  return kind == FlightKind::pooled || set.remove(flight);
}

void Segment::refuse(std::uint32_t block, FlightKind kind, Slot flight) noexcept {
  if (block < blocks_ && flight < kPinned && flight != slot_ && kind != FlightKind::pooled)
    holders(block).remove(flight);
}

}  // namespace shoal
