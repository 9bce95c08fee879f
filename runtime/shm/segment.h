#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/flight.h"
#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/sharing_strategy.h"
#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {

// One kernel object, mapped into this process, and this process' part in it: a slot with a lock on
// it, and under this slot a hold on each block that is used here.
//
// Its pages are reserved when it is made, so that later access cannot fail; an access through
// data() never raises SIGBUS. Attaching gives no right to destroy: the name, if there is one, goes
// with the last holder in any process.
//
// Not for use by two threads at once, which SegmentPool sees to; but for data(), write_through,
// prefault and taker.
class Segment {
 public:
  // Zeroed memory, nbytes of it, for so many blocks, held by nobody. This process owns it, in
  // kOwnerSlot. Throws Error(no_space) or Error(limit_reached) naming what was wanted, what is
  // left, which limit was met and what to do.
  Segment(std::size_t nbytes, std::uint32_t blocks, SharingStrategy strategy);

  // The segment behind a received descriptor, which is looked at but not kept. It is accepted only
  // if its header fits it and `expected`, and if it is sealed against resizing unless it has a
  // name: Error(malformed) or Error(version_mismatch) otherwise.
  Segment(const Fd& memory, const SegmentId& expected);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  // Unmaps, frees the slot, and removes the name if nobody else holds the segment.
  ~Segment();

  [[nodiscard]] const SegmentId& id() const { return id_; }
  [[nodiscard]] SharingStrategy strategy() const { return strategy_; }
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
  [[nodiscard]] std::byte* data() const { return base_ + data_offset_; }
  // The same data, mapped so that a write raises SIGSEGV. Mapped at the first call.
  [[nodiscard]] const std::byte* read_only_data();
  // file_system: the name under /dev/shm. file_descriptor: none, empty.
  [[nodiscard]] const std::string& name() const { return name_; }
  // Writes by pwrite, which on pages never touched costs less than half of faulting them in.
  void write_through(std::size_t offset, const void* from, std::size_t nbytes);
  // Maps the pages of a range now, many at a time; for pages that will be used for certain.
  void prefault(std::size_t offset, std::size_t nbytes) noexcept;

  // Who the owner is, and whether more blocks may still come from it.
  [[nodiscard]] bool owned_here() const { return owned_here_; }
  [[nodiscard]] bool owner_is_gone() const;
  // The owner gives it up: no block is in use. Its name and its memory go at once, even where it
  // is still mapped.
  void retire() noexcept;
  // A missing name counts as removed. Whoever has the segment mapped does not notice.
  void remove_name() noexcept;

  // For the owner: a block is handed out, perhaps for the first time.
  void use(std::uint32_t block) noexcept;

  // --- Holds of this process. Idempotent; nothing happens once it has left.
  void hold(std::uint32_t block) noexcept {
    if (takes_part_) holders(block).add(slot_);
  }
  void let_go(std::uint32_t block) noexcept {
    if (takes_part_) holders(block).remove(slot_);
  }
  // Whether this process has a slot. Not after leave(), nor in a child for which there was none.
  [[nodiscard]] bool takes_part() const { return takes_part_; }
  // Takes a new one, by a descriptor that a message brought.
  void rejoin(const Fd& memory);
  // Its holders will be looked at soon. Most likely another CPU changed them last, and to wait for
  // many of them at once takes little longer than for one.
  void fetch_holders(std::uint32_t block) const noexcept {
    if (block < blocks_) __builtin_prefetch(&holders(block), 1);
  }
  [[nodiscard]] bool is_free(std::uint32_t block) const { return holders(block).empty(); }
  // What dead holders held is held no more. Any process may do it. Whether there were any.
  bool strike_dead();

  // This process' slot: no other living process has it. And whether the taker of another lives.
  [[nodiscard]] Slot slot() const { return slot_; }
  [[nodiscard]] bool is_alive(Slot slot) const noexcept;
  // Of the slot's taker, for messages; 0 if nobody has it.
  [[nodiscard]] std::uint32_t taker(Slot slot) const noexcept;

  // --- Holds of messages (flight.h).
  // A hold on each block for one message to be sent with the flight's descriptor.
  [[nodiscard]] std::shared_ptr<Flight> depart(std::span<const std::uint32_t> blocks);
  // The message was not sent after all.
  void abandon(const Flight& flight, std::span<const std::uint32_t> blocks) noexcept;
  // A message has come: this process holds the block instead of it. False if it did not hold it.
  [[nodiscard]] bool arrive(std::uint32_t block, FlightKind kind, Slot flight) noexcept;
  // The same, but this process does not want the block.
  void refuse(std::uint32_t block, FlightKind kind, Slot flight) noexcept;
  // Flights that are open here and not received yet; in a forked child they must not stay so.
  [[nodiscard]] const std::shared_ptr<Flight>& open_one() const { return flight_; }
  // No message will use the open flight any more, so that lost ones can be found dead.
  void close_flight() noexcept { flight_.reset(); }

  // --- Around fork (segment_fork.cpp): the child holds what its parent holds, on its own account.
  void prepare_fork(std::span<const std::uint32_t> held) noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

  // At this process' end: gives up the slot, as the end would, and removes the name if nobody else
  // has the segment. What was held here may be handed out again from now on.
  void leave() noexcept;

 private:
  [[nodiscard]] SegmentControl& control() const {
    return *reinterpret_cast<SegmentControl*>(base_);
  }
  [[nodiscard]] HolderSet& holders(std::uint32_t block) const {
    return reinterpret_cast<HolderSet*>(base_ + sizeof(SegmentControl))[block];
  }
  class Mapping;
  void map(const Fd& memory);
  // A free slot, locked by `fd`. Throws Error(limit_reached) when all are taken by the living.
  [[nodiscard]] Slot take_slot(int fd);
  [[nodiscard]] int free_slots() const noexcept;
  [[nodiscard]] std::shared_ptr<Flight> open_flight();

  SegmentId id_;
  SharingStrategy strategy_;
  bool owned_here_;
  bool takes_part_ = false;
  Slot slot_ = kOwnerSlot;
  std::uint32_t blocks_ = 0;
  std::size_t nbytes_ = 0;
  std::size_t data_offset_ = 0;
  std::string name_;  // empty without one
  Fd memory_;         // holds our slot's lock; kept, since every message carries one like it
  std::unique_ptr<Mapping> mapping_, read_only_;
  std::byte* base_ = nullptr;
  std::shared_ptr<Flight> flight_;  // the one that the next message may join
  Fd childs_memory_;                // between prepare_fork and after_fork_…
  Slot childs_slot_ = 0;
};

}  // namespace shoal
