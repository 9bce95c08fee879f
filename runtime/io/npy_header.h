#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shoal/runtime/device/dtype.h"
#include "shoal/runtime/tensor/shape.h"

// What stands before the elements of an .npy file. Not a public header.
namespace shoal {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::size_t kMaxNpyHeader = 1'000'000;

// The dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;     // of items of more than one byte
  bool fortran_order = false;  // the first axis is the densest
  Shape shape;
};

// All that precedes the elements of this dtype and shape, row-major; they begin at a multiple of 64
// bytes. Throws Error(unsupported) for a dtype that NumPy does not have.
[[nodiscard]] std::string format_npy_header(DType dtype, const Shape& shape,
                                            const std::string& path);

// The dict alone. Throws Error(malformed), and Error(unsupported) for a dtype or rank that Shoal
// does not have.
[[nodiscard]] NpyHeader parse_npy_header(std::string_view text, const std::string& path);

// A dtype as the format names it, without the byte order; empty for bf16, which it has not.
[[nodiscard]] std::string_view npy_name_of(DType dtype);

}  // namespace shoal
