#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

#include "shoal/runtime/tensor/tensor.h"

// The elements of tensors as the bytes that files hold. Not a public header.
namespace shoal {

static_assert(std::endian::native == std::endian::little,
              "little-endian elements go between memory and file as they are");

// Those of a contiguous tensor.
inline std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// Between big-endian and little-endian, each item of `item` bytes on its own.
inline void swap_byte_order(std::span<std::byte> bytes, std::size_t item) {
  if (item == 1) return;
  for (; bytes.size() >= item; bytes = bytes.subspan(item)) std::ranges::reverse(bytes.first(item));
}

// Whether each byte is 0 or 1: a bool that is neither is undefined behaviour in whoever reads it.
inline bool are_bools(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte value) { return value <= std::byte{1}; });
}

}  // namespace shoal
