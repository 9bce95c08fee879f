#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal {

// The type of a tensor's elements. The numbers are part of the wire format: append, never reorder.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, u8, i16, i32, i64, boolean };

inline constexpr int kDTypeCount = 10;

// IEEE 754 binary16 and bfloat16, as bits. They are stored, sent and converted; arithmetic is
// done in f32 after Tensor::to.
struct Half {
  std::uint16_t bits = 0;
  friend bool operator==(Half, Half) = default;
};
struct BFloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(BFloat16, BFloat16) = default;
};

// Bytes of one element.
[[nodiscard]] constexpr std::size_t item_size(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

[[nodiscard]] constexpr bool is_floating_point(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

// "f32", "i64", "bool", …
[[nodiscard]] std::string_view to_string(DType dtype);

// The dtype of a number from a file or a socket; empty if it names none.
[[nodiscard]] constexpr std::optional<DType> dtype_from_wire(std::uint64_t number) {
  if (number >= kDTypeCount) return std::nullopt;
  return static_cast<DType>(number);
}

// dtype_of<float> is DType::f32, and so on for each C++ type that an element may have.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType has this element type");
  return DType::f32;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace shoal
