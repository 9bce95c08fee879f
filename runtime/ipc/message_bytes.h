#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "shoal/runtime/base/error.h"

namespace shoal {

// A small struct as Message::bytes, and back, between processes of one program. Without pointers:
// they mean nothing there.
template <class T>
requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>)
    [[nodiscard]] std::vector<std::byte> to_bytes(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Throws Error(malformed) for another number of bytes.
template <class T>
requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) [[nodiscard]] T
    from_bytes(std::span<const std::byte> bytes) {
  check(bytes.size() == sizeof(T), ErrorKind::malformed, "from_bytes", bytes.size(),
        " bytes for a struct of ", sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace shoal
