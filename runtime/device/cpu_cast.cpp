#include "shoal/runtime/device/cpu_cast.h"

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "shoal/runtime/device/dispatch.h"

namespace shoal {
namespace {

// As which type elements of T are read. Bytes from another process or a file need not be what a
// bool may be, so they are not loaded as one.
template <class T>
using Loaded = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

// The arithmetic type that stands for T while converting.
template <class T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    return static_cast<float>(std::bit_cast<Eigen::half>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<float>(std::bit_cast<Eigen::bfloat16>(value));
  } else {
    return value;
  }
}

// Truncates and saturates: a plain cast of an unrepresentable value is undefined.
template <class To, class From>
To to_integer(From value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return To{0};
  // The bounds are powers of two (or zero), so they are exact in any floating type.
  if (value <= static_cast<From>(Limits::min())) return Limits::min();
  if (value >= std::ldexp(From{1}, Limits::digits)) return Limits::max();
  return static_cast<To>(value);
}

template <class To, class From>
To convert(From stored) {
  const auto value = widen(stored);
  using Value = std::remove_const_t<decltype(value)>;
  if constexpr (std::is_same_v<To, bool>) {
    return value != Value{0};
  } else if constexpr (std::is_same_v<To, Half>) {
    return std::bit_cast<Half>(Eigen::half(static_cast<float>(value)));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return std::bit_cast<BFloat16>(Eigen::bfloat16(static_cast<float>(value)));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<Value>) {
    return to_integer<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

void cpu_cast(DType to_dtype, void* y, DType from_dtype, const void* x, std::int64_t n) {
  if (to_dtype == from_dtype) {
    if (n > 0) std::memmove(y, x, static_cast<std::size_t>(n) * item_size(to_dtype));
    return;
  }
  visit_dtype(from_dtype, [&]<class From>() {
    visit_dtype(to_dtype, [&]<class To>() {
      const auto* in = static_cast<const Loaded<From>*>(x);
      auto* out = static_cast<To*>(y);
      for (std::int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<From, bool>) {
          out[i] = convert<To>(in[i] != 0);
        } else {
          out[i] = convert<To>(in[i]);
        }
      }
    });
  });
}

}  // namespace shoal
