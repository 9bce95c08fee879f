#pragma once

#include <cstdint>

#include "shoal/runtime/device/dtype.h"

namespace shoal {

// y[i] = x[i] converted. Floating to narrower floating rounds to nearest even (f64 to f16 and bf16
// by way of f32); floating to integer truncates and saturates, NaN becomes 0; integer to narrower
// integer wraps; anything to bool is x != 0. Private to the cpu device.
void cpu_cast(DType to_dtype, void* y, DType from_dtype, const void* x, std::int64_t n);

}  // namespace shoal
