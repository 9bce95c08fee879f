#pragma once

#include <cstddef>

namespace shoal {

// From here on a copy that others will read is better made past the cache: lines that are in a
// reader's cache are costly to write to, and would push out what is in ours.
inline constexpr std::size_t kStreamFrom = std::size_t{256} << 10;

// As memcpy, past the cache. What was written is visible to whoever is told of it afterwards.
void stream_copy(void* to, const void* from, std::size_t nbytes) noexcept;

}  // namespace shoal
