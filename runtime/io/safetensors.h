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
// path; Error(no_space) for a full disk.
void save_safetensors(const std::string& path, const TensorFile& file);

// Reads into private memory. Throws Error(not_found) or Error(malformed): a header too long (over
// 100 MB) or no JSON object, an unknown dtype, offsets that overlap, leave holes, lie outside the
// file or disagree with the shape, a name given twice. The message names the path and the tensor.
[[nodiscard]] TensorFile load_safetensors(const std::string& path);

}  // namespace shoal
