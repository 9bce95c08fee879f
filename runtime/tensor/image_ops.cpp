#include "shoal/runtime/tensor/image_ops.h"

#include <algorithm>
#include <limits>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/device.h"
#include "shoal/runtime/tensor/operands.h"
#include "shoal/runtime/tensor/ops.h"

// A convolution of one image is a product with its columns: a matrix with a column for each place
// of the kernel, which has what lies under it there. One image's at a time is held.
namespace shoal::ops {
namespace {

constexpr std::int64_t kRegister = 16;  // f32 of the widest

struct Geometry {
  Windows windows;
  std::int64_t outputs = 0;
};

Geometry geometry_of(const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  constexpr const char* kCall = "conv2d";
  check(x.rank() == 4 && weight.rank() == 4 && x[1] == weight[1], ErrorKind::invalid_argument,
        kCall, "needs x(n,c,h,w) and weight(o,c,kh,kw), given ", x, " and ", weight);
  check(options.stride >= 1 && options.padding >= 0, ErrorKind::invalid_argument, kCall, "stride ",
        options.stride, " and padding ", options.padding, " must be at least 1 and 0");
  Windows g{.n = x[0],
            .channels = x[1],
            .h = x[2],
            .w = x[3],
            .kh = weight[2],
            .kw = weight[3],
            .stride = options.stride,
            .padding = options.padding};
  // Checked one after the other: a padding may be too large to add.
  check(options.padding <= std::numeric_limits<std::int32_t>::max(), ErrorKind::invalid_argument,
        kCall, "padding ", options.padding, " is too large");
  const std::int64_t free_h = g.h + 2 * g.padding - g.kh, free_w = g.w + 2 * g.padding - g.kw;
  check(g.kh >= 1 && g.kw >= 1 && free_h >= 0 && free_w >= 0, ErrorKind::invalid_argument, kCall,
        "a kernel of ", weight, " does not fit x of ", x, " with padding ", g.padding);
  // A longer one than the image is that long to all intents.
  g.stride = std::min(g.stride, std::max(free_h, free_w) + 1);
  g.out_h = free_h / g.stride + 1;
  g.out_w = free_w / g.stride + 1;
  // Throws where there would be more columns than can be counted.
  static_cast<void>(numel({g.channels, g.kh, g.kw, g.out_h, g.out_w}));
  return {g, weight[0]};
}

void check_floating(const Tensor& x, const Tensor& y, const char* call) {
  check(x.defined() && y.defined(), ErrorKind::invalid_argument, call, "an operand is undefined");
  check(x.dtype() == y.dtype() && (x.dtype() == DType::f32 || x.dtype() == DType::f64),
        ErrorKind::invalid_argument, call, "needs two of f32 or two of f64, given ",
        to_string(x.dtype()), " and ", to_string(y.dtype()));
}

void check_gradient(const Tensor& dy, const Windows& g, std::int64_t outputs, const char* call) {
  const Shape shape{g.n, outputs, g.out_h, g.out_w};
  check(dy.shape() == shape, ErrorKind::invalid_argument, call, "a gradient of ", dy.shape(),
        " for a result of ", shape);
}

std::byte* at(const Tensor& tensor, std::int64_t element) {
  return static_cast<std::byte*>(tensor.data_ptr()) +
         static_cast<std::size_t>(element) * item_size(tensor.dtype());
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& b,
              const Conv2dOptions& options) {
  check_floating(x, weight, "conv2d");
  const auto [windows, outputs] = geometry_of(x.shape(), weight.shape(), options);
  if (b.defined()) {
    check_floating(x, b, "conv2d");
    check(b.shape() == Shape{outputs}, ErrorKind::invalid_argument, "conv2d", "bias of shape ",
          b.shape(), " does not fit weight of shape ", weight.shape());
  }
  Tensor y = Tensor::empty({windows.n, outputs, windows.out_h, windows.out_w}, x.dtype());
  if (b.defined()) {
    y.copy_(b.reshape({outputs, 1, 1}));
  } else {
    y.zero_();
  }
  const Tensor in = x.contiguous(), kernel = weight.contiguous();
  const Windows& g = windows;
  const Tensor columns = Tensor::empty({g.n == 0 ? 0 : g.under(), g.places()}, x.dtype());
  for (std::int64_t image = 0; image < g.n; ++image) {
    y.device().unfold(y.dtype(), columns.data_ptr(), at(in, image * g.image()), g);
    // y(outputs, places) += kernel(outputs, under) columns(under, places)
    y.device().matmul(y.dtype(), {.m = outputs,
                                  .n = g.places(),
                                  .k = g.under(),
                                  .a = kernel.data_ptr(),
                                  .b = columns.data_ptr(),
                                  .c = at(y, image * outputs * g.places()),
                                  .lda = g.under(),
                                  .ldb = g.places(),
                                  .ldc = g.places(),
                                  .beta = 1});
  }
  return y;
}

Tensor conv2d_backward_x(const Tensor& dy, const Tensor& weight, const Shape& x,
                         const Conv2dOptions& options) {
  check_floating(dy, weight, "conv2d_backward_x");
  const auto [windows, outputs] = geometry_of(x, weight.shape(), options);
  const Windows& g = windows;
  check_gradient(dy, g, outputs, "conv2d_backward_x");
  Tensor dx = Tensor::zeros(x, dy.dtype());
  const Tensor gradient = dy.contiguous(), kernel = weight.contiguous();
  const Tensor columns = Tensor::empty({g.n == 0 ? 0 : g.under(), g.places()}, dy.dtype());
  for (std::int64_t image = 0; image < g.n; ++image) {
    // columns(under, places) = kernel(outputs, under)^T dy(outputs, places)
    dx.device().matmul(dx.dtype(), {.m = g.under(),
                                    .n = g.places(),
                                    .k = outputs,
                                    .a = kernel.data_ptr(),
                                    .b = at(gradient, image * outputs * g.places()),
                                    .c = columns.data_ptr(),
                                    .lda = g.under(),
                                    .ldb = g.places(),
                                    .ldc = g.places(),
                                    .transpose_a = true});
    dx.device().fold(dx.dtype(), at(dx, image * g.image()), columns.data_ptr(), g);
  }
  return dx;
}

void conv2d_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x,
                            const Conv2dOptions& options, bool add) {
  constexpr const char* kCall = "conv2d_backward_weight";
  check_floating(dy, x, kCall);
  check_floating(dw, x, kCall);
  const auto [windows, outputs] = geometry_of(x.shape(), dw.shape(), options);
  const Windows& g = windows;
  check_gradient(dy, g, outputs, kCall);
  check_target(dw, kCall);
  const Tensor gradient = dy.contiguous(), in = x.contiguous();
  // Columns of zeros make the sums as wide as whole registers, which is twice as fast for few.
  const std::int64_t padded = (g.under() + kRegister - 1) / kRegister * kRegister;
  const Tensor columns = Tensor::empty({g.n == 0 ? 0 : padded, g.places()}, dy.dtype());
  columns.slice(0, g.under(), padded).zero_();
  const Tensor sums = Tensor::empty({outputs, padded}, dy.dtype());
  if (g.n == 0) sums.zero_();
  for (std::int64_t image = 0; image < g.n; ++image) {
    dw.device().unfold(dw.dtype(), columns.data_ptr(), at(in, image * g.image()), g);
    // sums(outputs, under) += dy(outputs, places) columns(under, places)^T
    dw.device().matmul(dw.dtype(), {.m = outputs,
                                    .n = padded,
                                    .k = g.places(),
                                    .a = at(gradient, image * outputs * g.places()),
                                    .b = columns.data_ptr(),
                                    .c = sums.data_ptr(),
                                    .lda = g.places(),
                                    .ldb = g.places(),
                                    .ldc = padded,
                                    .transpose_b = true,
                                    .beta = image == 0 ? 0.0 : 1.0});
  }
  const Tensor matrix = dw.view({outputs, g.under()}), sum = sums.slice(1, 0, g.under());
  if (add) {
    axpy(matrix, 1, sum);
  } else {
    matrix.copy_(sum);
  }
}

namespace {

Windows pooling_windows(const Shape& x, std::int64_t kernel, std::int64_t stride) {
  check(x.rank() == 4 && kernel >= 1 && stride >= 1 && x[2] >= kernel && x[3] >= kernel,
        ErrorKind::invalid_argument, "max_pool2d", "needs x(n,c,h,w) that a kernel fits, given ", x,
        ", kernel ", kernel, " and stride ", stride);
  return {.n = x[0],
          .channels = x[1],
          .h = x[2],
          .w = x[3],
          .kh = kernel,
          .kw = kernel,
          .stride = std::min(stride, std::max(x[2], x[3])),
          .out_h = (x[2] - kernel) / stride + 1,
          .out_w = (x[3] - kernel) / stride + 1};
}

}  // namespace

Pooled max_pool2d(const Tensor& x, std::int64_t kernel, std::int64_t stride) {
  check_floating(x, x, "max_pool2d");
  const Windows g = pooling_windows(x.shape(), kernel, stride);
  const Shape shape{g.n, g.channels, g.out_h, g.out_w};
  Pooled pooled{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, DType::i64)};
  const Tensor in = x.contiguous();
  x.device().max_pool(x.dtype(), pooled.values.data_ptr(), pooled.index.data<std::int64_t>(),
                      in.data_ptr(), g);
  return pooled;
}

Tensor max_pool2d_backward(const Tensor& dy, const Tensor& index, const Shape& x) {
  constexpr const char* kCall = "max_pool2d_backward";
  check_floating(dy, dy, kCall);
  check(index.shape() == dy.shape() && index.dtype() == DType::i64 && x.rank() == 4 &&
            dy.rank() == 4 && dy.size(0) == x[0] && dy.size(1) == x[1],
        ErrorKind::invalid_argument, kCall, "gradient ", dy.shape(), " and index ", index.shape(),
        " do not fit ", x);
  Tensor dx = Tensor::zeros(x, dy.dtype());
  const Tensor gradient = dy.contiguous(), at = index.contiguous();
  check_below(at, x[2] * x[3], kCall);
  dx.device().max_pool_backward(dx.dtype(), dx.data_ptr(), gradient.data_ptr(),
                                at.data<std::int64_t>(),
                                {.n = x[0],
                                 .channels = x[1],
                                 .h = x[2],
                                 .w = x[3],
                                 .out_h = dy.size(2),
                                 .out_w = dy.size(3)});
  return dx;
}

}  // namespace shoal::ops
