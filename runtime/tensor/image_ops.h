#pragma once

#include <cstdint>

#include "shoal/runtime/tensor/tensor.h"

// Arithmetic on images x(n,c,h,w): n of them, c channels, h rows, w columns. As ops.h in dtypes,
// devices and errors.
namespace shoal::ops {

struct Conv2dOptions {
  std::int64_t stride = 1;   // at least 1
  std::int64_t padding = 0;  // rows and columns of zeros on each side
};

// y(n,o,h',w')[.., i, j] = b[o] + sum over c, p, q of
//   weight(o,c,kh,kw)[o,c,p,q] x[.., c, i stride + p - padding, j stride + q - padding],
// where h' = (h + 2 padding - kh) / stride + 1, rounded down, and w' alike; b(o) may be undefined.
[[nodiscard]] Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& b,
                            const Conv2dOptions& options);
// The gradient of x, from that of the result.
[[nodiscard]] Tensor conv2d_backward_x(const Tensor& dy, const Tensor& weight, const Shape& x,
                                       const Conv2dOptions& options);
// The gradient of weight written to dw, or added to it; dw is contiguous.
void conv2d_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x,
                            const Conv2dOptions& options, bool add);

// The largest of each kernel by kernel window, windows `stride` apart; what does not fill a window
// is left out. `index`, i64, is where in its channel's h w elements it was, the first one if
// several; NaN counts as the largest.
struct Pooled {
  Tensor values, index;
};
[[nodiscard]] Pooled max_pool2d(const Tensor& x, std::int64_t kernel, std::int64_t stride);
// dy added where the largest came from, zeros elsewhere.
[[nodiscard]] Tensor max_pool2d_backward(const Tensor& dy, const Tensor& index, const Shape& x);

}  // namespace shoal::ops
