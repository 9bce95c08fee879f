#include "shoal/runtime/base/wire.h"

namespace shoal {

void WireWriter::append(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

}  // namespace shoal
