#pragma once

#include "shoal/runtime/tensor/tensor.h"

// The treaty by which array libraries in one process (NumPy, PyTorch, JAX, CuPy, …) lend each other
// tensors without a copy; <dlpack/dlpack.h> has the struct. This is the unversioned one, which
// Python passes in capsules named "dltensor".
struct DLManagedTensor;

namespace shoal {

// Lends the bytes of `tensor` and keeps its storage until the borrower calls the result's
// `deleter`, once, on any thread. Strides are given in elements, `byte_offset` is 0. A bool is of
// code 6 (kDLBool), never u8: a borrower that does not know it refuses instead of taking a mask for
// indices.
//
// The borrower has a pointer, as from data(): share_memory() of this storage while it is lent
// leaves that pointer dead, so share first.
//
// Throws Error(invalid_argument) for an undefined tensor and Error(unsupported) for one that is not
// in the cpu's memory.
[[nodiscard]] DLManagedTensor* to_dlpack(const Tensor& tensor);

// A tensor over the bytes that `lent` describes. Takes `lent` over in every case: its `deleter`
// runs when the last tensor over the bytes goes or share_memory() has moved them, and at once when
// they are refused. The lender answers for what cannot be checked: that the memory is there, may be
// written, and holds only 0 and 1 where it says bool.
//
// Throws Error(malformed) for null, for a negative size, and for sizes or strides that are missing
// or reach beyond all memory; Error(unsupported) for memory that is not the cpu's, a dtype, vector
// type or rank that Shoal does not have, negative strides, and elements that are not aligned.
[[nodiscard]] Tensor from_dlpack(DLManagedTensor* lent);

}  // namespace shoal
