#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {

// Slots of a segment: processes that have it mapped, and batches of messages on their way.
inline constexpr Slot kSlots = 448;

// One bit for each slot.
using SlotMask = std::array<std::uint64_t, kSlots / 64>;

// Who holds a block: a set of slots, in the segment itself, changed by any process that maps it.
//
// A set rather than a counter: a dead holder can be struck out, and giving back what is no longer
// held changes nothing. Whoever adds a slot already holds the block under another, which it frees
// only afterwards; so an empty set stays empty until the segment's owner hands the block out anew.
class HolderSet {
 public:
  void add(Slot slot) noexcept {
    word(slot).fetch_or(bit(slot), std::memory_order_acq_rel);
    // Before its taker can free any other slot: who sees that one free sees this count.
    additions_.fetch_add(1, std::memory_order_release);
  }
  // Whether it was there. Release: whoever finds the set empty also sees all that this holder
  // wrote.
  bool remove(Slot slot) noexcept {
    return (word(slot).fetch_and(~bit(slot), std::memory_order_acq_rel) & bit(slot)) != 0;
  }
  void remove_all(const SlotMask& slots) noexcept {
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      // Most words hold nothing; reading leaves their cache line shared.
      if (bits_[i].load(std::memory_order_relaxed) & slots[i])
        bits_[i].fetch_and(~slots[i], std::memory_order_acq_rel);
    }
  }
  [[nodiscard]] bool contains(Slot slot) const noexcept {
    return (word(slot).load(std::memory_order_acquire) & bit(slot)) != 0;
  }
  // False while a hold passes from slot to slot, even if no single word shows it: then the count of
  // additions moved between the two looks at it.
  [[nodiscard]] bool empty() const noexcept {
    const std::uint64_t before = additions_.load(std::memory_order_acquire);
    for (const auto& word : bits_)
      if (word.load(std::memory_order_acquire) != 0) return false;
    return additions_.load(std::memory_order_acquire) == before;
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free, "words are shared between processes");

  [[nodiscard]] static std::uint64_t bit(Slot slot) { return std::uint64_t{1} << (slot % 64); }
  [[nodiscard]] Word& word(Slot slot) { return bits_[slot / 64]; }
  [[nodiscard]] const Word& word(Slot slot) const { return bits_[slot / 64]; }

  Word additions_;
  std::array<Word, kSlots / 64> bits_;
};
// A cache line: blocks that two processes use do not slow each other down.
static_assert(sizeof(HolderSet) == 64 && std::is_standard_layout_v<HolderSet>);

}  // namespace shoal
