#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace shoal {

// How shared memory is made and how it crosses between processes. The numbers are part of the wire
// format: append, never reorder.
enum class SharingStrategy : std::uint8_t {
  // memfd_create, sealed; it has no name anywhere. The kernel frees it with its last holder,
  // however
  // that one ends. Limited by memory.
  file_descriptor = 0,
  // A file under /dev/shm with a name, for people and tools to see. The name has to be removed: by
  // the last holder, or for killed ones by whoever reaps (orphans.h). Limited by the size of
  // /dev/shm.
  file_system = 1,
};

[[nodiscard]] std::string_view to_string(SharingStrategy strategy);

// Throws Error(invalid_argument) that lists what there is.
[[nodiscard]] SharingStrategy parse_sharing_strategy(std::string_view name);

[[nodiscard]] std::span<const SharingStrategy> get_all_sharing_strategies();

// What this process uses where a call does not say: what was set last; before that, what the
// environment variable SHOAL_SHARING_STRATEGY names; without one, or if it is empty,
// file_descriptor. The variable is read at the first get, which throws Error(invalid_argument)
// naming it if it names no strategy. Any thread may get or set.
[[nodiscard]] SharingStrategy get_sharing_strategy();
void set_sharing_strategy(SharingStrategy strategy);

}  // namespace shoal
