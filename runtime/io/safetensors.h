#pragma once

#include <map>
#include <string>

#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// Tensors by name, and free text by name ("__metadata__" in the file).
struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The safetensors format: u64 length, a JSON header of that length, then the elements,
// little-endian (github.com/huggingface/safetensors, README "Format"). Dtypes map to F32 F64 F16
// BF16 I8 U8 I16 I32 I64 BOOL. Written with the data 8-byte aligned, tensors in order of item size
// (largest first), then name, so that equal contents make equal files.

// Replaces `path` as a whole or not at all: a file beside it is written, flushed to the disk and
// renamed. On failure nothing is left behind and an older file stays. Throws Error, naming the
// path: no_space for a full disk, not_found for a missing directory, and invalid_argument for a
// path that is a directory, a device or a symbolic link, for an undefined tensor, and for names or
// metadata that are not UTF-8.
void save_safetensors(const std::string& path, const TensorFile& file);

// Reads into private memory. The message of an Error names the path, and the tensor where there is
// one. Throws Error(not_found); Error(invalid_argument) for what is no regular file;
// Error(unsupported) for a dtype or rank that Shoal does not have; and Error(malformed) for a
// header too long (over 100 MB), no JSON object or with members that the format does not know, for
// offsets that overlap, leave holes, lie outside the file or disagree with the shape, for a name
// given twice, and for a BOOL that is neither 0 nor 1.
[[nodiscard]] TensorFile load_safetensors(const std::string& path);

}  // namespace shoal
