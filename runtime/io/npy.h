#pragma once

#include <string>

#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// One tensor in NumPy's .npy format: magic, version, length of the header, the header as a Python
// dict literal, then the elements (numpy.org, "numpy.lib.format"). Dtypes map to f4 f8 f2 i1 u1 i2
// i4 i8 b1.

// Writes format 1.0, little-endian, row-major. Replaces `path` as a whole or not at all: a file
// beside it is written, flushed to the disk and renamed. On failure nothing is left behind and an
// older file stays. Throws Error, naming the path: no_space for a full disk, not_found for a
// missing directory, unsupported for bf16, which NumPy does not have, and invalid_argument for a
// path that is a directory, a device or a symbolic link, and for an undefined tensor.
void save_npy(const std::string& path, const Tensor& tensor);

// Reads formats 1.0, 2.0 and 3.0 of either byte order into private memory. What was written in
// Fortran order comes as a view, transposed, of the elements as they lie in the file. Never
// unpickles.
//
// Errors name the path. Throws Error(not_found); Error(invalid_argument) for what is no regular
// file; Error(version_mismatch) for another version of the format; Error(unsupported) for a dtype
// or rank that Shoal does not have, for records and objects, and for .npz archives; and
// Error(malformed) for whatever else is no .npy file: a header too long (over 1 MB), or that is not
// the dict of `descr`, `fortran_order` and `shape` and of nothing else, elements that are fewer or
// more than the shape says, and a bool that is neither 0 nor 1.
[[nodiscard]] Tensor load_npy(const std::string& path);

}  // namespace shoal
