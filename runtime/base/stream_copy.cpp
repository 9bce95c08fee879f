#include "shoal/runtime/base/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace shoal {

#if defined(__SSE2__)

void stream_copy(void* to, const void* from, std::size_t nbytes) noexcept {
  constexpr std::size_t kVector = sizeof(__m128i), kLine = 4 * kVector;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(target) % kLine;
  const std::size_t head = std::min(nbytes, misaligned == 0 ? 0 : kLine - misaligned);
  std::memcpy(target, source, head);
  target += head, source += head, nbytes -= head;
  for (; nbytes >= kLine; target += kLine, source += kLine, nbytes -= kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(source);
    auto* out = reinterpret_cast<__m128i*>(target);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(target, source, nbytes);
  // Such stores keep no order with others without it.
  _mm_sfence();
}

#else

void stream_copy(void* to, const void* from, std::size_t nbytes) noexcept {
  std::memcpy(to, from, nbytes);
}

#endif

}  // namespace shoal
