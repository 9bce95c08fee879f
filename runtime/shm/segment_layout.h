#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "shoal/runtime/shm/holder_set.h"
#include "shoal/runtime/shm/sharing_strategy.h"

// What lies in a segment, as all processes see it:
//
//   control   header, state, the owner of each slot     1920 bytes
//   holders   a HolderSet for each block                64 bytes each
//   data      from data_offset, at a page's start       nbytes
//
// A changed layout needs a new kSegmentLayoutVersion.
namespace shoal {

// 128 random bits, never reused; two processes that know the same id know the same bytes.
struct SegmentId {
  std::uint64_t high = 0, low = 0;

  // From the kernel, so that a forked child draws other numbers than its parent.
  [[nodiscard]] static SegmentId random();
  // 32 hexadecimal digits.
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const SegmentId&, const SegmentId&) = default;
  // For maps.
  friend bool operator<(const SegmentId& a, const SegmentId& b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  }
};

// The name of a segment under /dev/shm.
[[nodiscard]] std::string segment_name(std::string_view prefix, const SegmentId& id);

// Written once, before anybody else can see it.
struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t strategy;
  SegmentId id;
  std::uint64_t nbytes;       // of the data
  std::uint64_t data_offset;  // where the data begin
  std::uint32_t blocks;       // how many sets of holders there are
  std::uint32_t creator_pid;  // for people only: pids repeat
  std::uint64_t reserved;
};
static_assert(sizeof(SegmentHeader) == 64 && std::is_standard_layout_v<SegmentHeader> &&
              std::is_trivially_copyable_v<SegmentHeader>);

struct SegmentControl {
  SegmentHeader header;
  // Not 0: the owner hands out no more blocks of this segment, so nobody need keep it mapped.
  std::atomic<std::uint32_t> retired;
  // Blocks from here on have never been handed out, so nobody holds them.
  std::atomic<std::uint32_t> used;
  // What the segment's name starts with, ended by 0. Empty without a name.
  std::array<char, 56> name_prefix;
  // Per slot 0 if it is free and no set contains it, else the process id of its taker, for people.
  // A slot that is taken but not locked is a dead holder's; its traces have to be struck out first.
  std::array<std::atomic<std::uint32_t>, kSlots> takers;
};
static_assert(sizeof(SegmentControl) == 1920 && std::is_standard_layout_v<SegmentControl>);

inline constexpr std::uint64_t kSegmentMagic = 0x4745'534c'414f'4853;  // "SHOALSEG"
inline constexpr std::uint32_t kSegmentLayoutVersion = 2;
inline constexpr std::size_t kPageSize = 4096;
// The owner's own; it hands out blocks as long as it has this locked.
inline constexpr Slot kOwnerSlot = 0;
// Never locked and never struck out: blocks that can no longer be counted safely carry it.
inline constexpr Slot kPinned = kSlots - 1;

[[nodiscard]] constexpr std::size_t data_offset_for(std::uint32_t blocks) {
  const std::size_t end = sizeof(SegmentControl) + blocks * sizeof(HolderSet);
  return (end + kPageSize - 1) / kPageSize * kPageSize;
}

// What is wrong with a header read from a file of `file_size` bytes; empty if nothing is.
[[nodiscard]] std::string find_fault(const SegmentHeader& header, std::uint64_t file_size);

}  // namespace shoal
