#include "shoal/runtime/shm/segment_layout.h"

#include <sys/random.h>

#include <cstdio>

#include "shoal/runtime/base/error.h"

namespace shoal {

SegmentId SegmentId::random() {
  SegmentId id;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) throw_errno("getrandom");
  return id;
}

std::string SegmentId::to_string() const {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return digits;
}

std::string segment_name(std::string_view prefix, const SegmentId& id) {
  return concat(prefix, "segment-", id.to_string());
}

std::string find_fault(const SegmentHeader& header, std::uint64_t file_size) {
  if (file_size < kPageSize) return concat("only ", file_size, " bytes, no header");
  if (header.magic != kSegmentMagic) return "not a Shoal segment";
  if (header.layout_version != kSegmentLayoutVersion) {
    return concat("made by another version of Shoal: layout ", header.layout_version,
                  ", this one reads ", kSegmentLayoutVersion);
  }
  if (header.data_offset != data_offset_for(header.blocks) || header.data_offset > file_size ||
      header.nbytes == 0 || header.nbytes > file_size - header.data_offset)
    return concat("the header promises ", header.nbytes, " bytes in a file of ", file_size);
  if (header.blocks == 0 || header.strategy > 1)
    return concat("the header names ", header.blocks, " blocks and strategy ", header.strategy);
  return {};
}

}  // namespace shoal
