#pragma once

#include <string>

#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// Reads an IDX file, the format of the MNIST family: magic 0 0 <type> <rank>, the sizes as
// big-endian u32, then the elements, big-endian, row-major (Y. LeCun, C. Cortes, C. J. C. Burges,
// "The MNIST database"). Types: u8, i8, i16, i32, f32, f64. Compressed by gzip or plain.
//
// Throws Error(not_found) for a missing file, Error(invalid_argument) for a directory or whatever
// else is no regular file, Error(unsupported) for more axes than kMaxRank, and Error(malformed) for
// a file that is no IDX file, is damaged, ends early, or has bytes left over; the message names the
// path. Memory used stays in proportion to what the file really holds, whatever its header
// promises.
[[nodiscard]] Tensor read_idx(const std::string& path);

}  // namespace shoal
