#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "shoal/runtime/shm/ledger.h"
#include "shoal/runtime/shm/sharing_strategy.h"

namespace shoal {

// 128 random bits, never reused; two processes that know the same id know the same bytes.
struct SegmentId {
  std::uint64_t high = 0, low = 0;

  // From the kernel, so that a forked child draws other numbers than its parent.
  [[nodiscard]] static SegmentId random();
  // 32 hexadecimal digits.
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const SegmentId&, const SegmentId&) = default;
};

// The start of every segment, as all processes see it. Nothing in it but the ledger's rows changes
// once the segment is made. A changed layout needs a new kSegmentLayoutVersion.
struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t strategy;
  SegmentId id;
  std::uint64_t nbytes;       // of the data
  std::uint64_t data_offset;  // where the data begin
  TokenId creator;            // 0 without a name
  std::uint64_t reserved;
};
static_assert(sizeof(SegmentHeader) == 64 && std::is_standard_layout_v<SegmentHeader> &&
              std::is_trivially_copyable_v<SegmentHeader>);

inline constexpr std::uint64_t kSegmentMagic = 0x4745'534c'414f'4853;  // "SHOALSEG"
inline constexpr std::uint32_t kSegmentLayoutVersion = 1;

// Header and ledger fill the first page; the data start on the next, as aligned as a page is.
inline constexpr std::size_t kSegmentDataOffset = 4096;
inline constexpr std::size_t kLedgerRows =
    (kSegmentDataOffset - sizeof(SegmentHeader)) / sizeof(Ledger::Row) - 1;

struct SegmentPage {
  SegmentHeader header;
  Ledger::Additions additions;
  std::array<Ledger::Row, kLedgerRows> rows;
};
static_assert(sizeof(SegmentPage) == kSegmentDataOffset);

// What is wrong with a header read from a file of `file_size` bytes; empty if nothing is.
[[nodiscard]] std::string find_fault(const SegmentHeader& header, std::uint64_t file_size);

}  // namespace shoal
