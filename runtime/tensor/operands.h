#pragma once

#include <cstdint>
#include <string>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/tensor.h"

// What the ops ask of their operands. Private to this folder.
namespace shoal::ops {

inline void check_operand(const Tensor& x, const char* op) {
  check(x.defined(), ErrorKind::invalid_argument, op, "an operand is undefined");
  if (x.dtype() == DType::f32 || x.dtype() == DType::f64) return;
  throw Error({.kind = ErrorKind::unsupported,
               .call = op,
               .subject = std::string(to_string(x.dtype())),
               .reason = "arithmetic takes f32 and f64",
               .remedy = "Convert with Tensor::to(DType::f32)"});
}

inline void check_alike(const Tensor& a, const Tensor& b, const char* op) {
  check_operand(a, op);
  check_operand(b, op);
  check(a.dtype() == b.dtype(), ErrorKind::invalid_argument, op, "dtypes ", to_string(a.dtype()),
        " and ", to_string(b.dtype()), " differ");
  check(&a.device() == &b.device(), ErrorKind::invalid_argument, op, "devices ", a.device().name(),
        " and ", b.device().name(), " differ");
}

// How many elements stand before and behind one axis.
struct Around {
  std::int64_t outer = 1, inner = 1;
};
inline Around around(const Shape& shape, int axis) {
  Around sizes;
  for (int i = 0; i < axis; ++i) sizes.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) sizes.inner *= shape[i];
  return sizes;
}

inline std::int64_t last_axis(const Tensor& x, const char* op) {
  check_operand(x, op);
  check(x.rank() >= 1, ErrorKind::invalid_argument, op, "a scalar has no last axis");
  return x.size(-1);
}

// That every element of an i64 index, contiguous, is in [0, end).
inline void check_below(const Tensor& index, std::int64_t end, const char* op) {
  const auto each = index.span<std::int64_t>();
  // Negative ones are large when unsigned. No early end, so that it takes whole registers.
  bool all = true;
  for (const std::int64_t i : each)
    all &= static_cast<std::uint64_t>(i) < static_cast<std::uint64_t>(end);
  if (all) [[likely]]
    return;
  for (std::size_t i = 0; i < each.size(); ++i)
    check(each[i] >= 0 && each[i] < end, ErrorKind::invalid_argument, op, "index ", each[i],
          " at place ", i, " is outside [0, ", end, ")");
}

// That an op may write to y in place.
inline void check_may_write(const Tensor& y, const char* op) {
  check_operand(y, op);
  check(y.is_contiguous() && !y.is_read_only(), ErrorKind::invalid_argument, op,
        "what is written to, of shape ", y.shape(), ", is ",
        y.is_read_only() ? "read-only" : "not contiguous");
}

// Of what an op is about to write to in place.
inline void check_target(const Tensor& y, const char* op) {
  check_may_write(y, op);
  y.storage()->count_write();
}

}  // namespace shoal::ops
