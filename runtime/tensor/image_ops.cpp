#include "shoal/runtime/tensor/image_ops.h"

#include <algorithm>
#include <cmath>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/dispatch.h"

// A convolution of one image is a product with its columns: a matrix with a column for each place
// of the kernel, which has what lies under it there. One image's at a time is held.
namespace shoal::ops {
namespace {

struct Geometry {
  std::int64_t n = 0, channels = 0, h = 0, w = 0;  // of x
  std::int64_t outputs = 0, kh = 0, kw = 0;        // of weight
  std::int64_t out_h = 0, out_w = 0;
  std::int64_t stride = 1, padding = 0;
  [[nodiscard]] std::int64_t image() const { return channels * h * w; }
  [[nodiscard]] std::int64_t under() const { return channels * kh * kw; }
  [[nodiscard]] std::int64_t places() const { return out_h * out_w; }
};

Geometry geometry_of(const Shape& x, const Shape& weight, const Conv2dOptions& options) {
  constexpr const char* kCall = "conv2d";
  check(x.rank() == 4 && weight.rank() == 4 && x[1] == weight[1], ErrorKind::invalid_argument,
        kCall, "needs x(n,c,h,w) and weight(o,c,kh,kw), given ", x, " and ", weight);
  check(options.stride >= 1 && options.padding >= 0, ErrorKind::invalid_argument, kCall, "stride ",
        options.stride, " and padding ", options.padding, " must be at least 1 and 0");
  Geometry g{.n = x[0],
             .channels = x[1],
             .h = x[2],
             .w = x[3],
             .outputs = weight[0],
             .kh = weight[2],
             .kw = weight[3],
             .stride = options.stride,
             .padding = options.padding};
  const std::int64_t free_h = g.h + 2 * g.padding - g.kh, free_w = g.w + 2 * g.padding - g.kw;
  check(g.kh >= 1 && g.kw >= 1 && free_h >= 0 && free_w >= 0, ErrorKind::invalid_argument, kCall,
        "a kernel of ", weight, " does not fit x of ", x, " with padding ", g.padding);
  g.out_h = free_h / g.stride + 1;
  g.out_w = free_w / g.stride + 1;
  return g;
}

void check_floating(const Tensor& x, const Tensor& y, const char* call) {
  check(x.defined() && y.defined(), ErrorKind::invalid_argument, call, "an operand is undefined");
  check(x.dtype() == y.dtype() && (x.dtype() == DType::f32 || x.dtype() == DType::f64),
        ErrorKind::invalid_argument, call, "needs two of f32 or two of f64, given ",
        to_string(x.dtype()), " and ", to_string(y.dtype()));
}

// Calls f(row of the columns, place, element of the image) for all that is not padding.
template <class F>
void for_each_under(const Geometry& g, F&& f) {
  for (std::int64_t row = 0; row < g.under(); ++row) {
    const std::int64_t channel = row / (g.kh * g.kw), p = row / g.kw % g.kh, q = row % g.kw;
    for (std::int64_t i = 0; i < g.out_h; ++i) {
      const std::int64_t y = i * g.stride + p - g.padding;
      if (y < 0 || y >= g.h) continue;
      for (std::int64_t j = 0; j < g.out_w; ++j) {
        const std::int64_t x = j * g.stride + q - g.padding;
        if (x >= 0 && x < g.w) f(row, i * g.out_w + j, (channel * g.h + y) * g.w + x);
      }
    }
  }
}

// (under, places), of zeros where nothing is written.
Tensor make_columns(const Geometry& g, DType dtype) {
  return Tensor::zeros({g.under(), g.places()}, dtype);
}

template <class T>
void fill_columns(const Geometry& g, T* columns, const T* image) {
  for_each_under(g, [&](std::int64_t row, std::int64_t place, std::int64_t element) {
    columns[row * g.places() + place] = image[element];
  });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& b,
              const Conv2dOptions& options) {
  check_floating(x, weight, "conv2d");
  const Geometry g = geometry_of(x.shape(), weight.shape(), options);
  if (b.defined()) {
    check_floating(x, b, "conv2d");
    check(b.shape() == Shape{g.outputs}, ErrorKind::invalid_argument, "conv2d", "bias of shape ",
          b.shape(), " does not fit weight of shape ", weight.shape());
  }
  Tensor y = Tensor::empty({g.n, g.outputs, g.out_h, g.out_w}, x.dtype());
  if (b.defined()) {
    y.copy_(b.reshape({g.outputs, 1, 1}));
  } else {
    y.zero_();
  }
  const Tensor in = x.contiguous(), kernel = weight.contiguous();
  const Tensor columns = make_columns(g, x.dtype());
  visit_floating(x.dtype(), [&]<class T>() {
    for (std::int64_t image = 0; image < g.n; ++image) {
      fill_columns(g, columns.data<T>(), in.data<T>() + image * g.image());
      y.device().matmul(y.dtype(), {.m = g.outputs,
                                    .n = g.places(),
                                    .k = g.under(),
                                    .a = kernel.data_ptr(),
                                    .b = columns.data_ptr(),
                                    .c = y.data<T>() + image * g.outputs * g.places(),
                                    .lda = g.under(),
                                    .ldb = g.places(),
                                    .ldc = g.places(),
                                    .beta = 1});
    }
  });
  return y;
}

Tensor conv2d_backward_x(const Tensor& dy, const Tensor& weight, const Shape& x,
                         const Conv2dOptions& options) {
  check_floating(dy, weight, "conv2d_backward_x");
  const Geometry g = geometry_of(x, weight.shape(), options);
  Tensor dx = Tensor::zeros(x, dy.dtype());
  const Tensor gradient = dy.contiguous(), kernel = weight.contiguous();
  const Tensor columns = make_columns(g, dy.dtype());
  visit_floating(dy.dtype(), [&]<class T>() {
    for (std::int64_t image = 0; image < g.n; ++image) {
      // columns(under, places) = kernel(outputs, under)^T dy(outputs, places)
      dx.device().matmul(dx.dtype(), {.m = g.under(),
                                      .n = g.places(),
                                      .k = g.outputs,
                                      .a = kernel.data_ptr(),
                                      .b = gradient.data<T>() + image * g.outputs * g.places(),
                                      .c = columns.data_ptr(),
                                      .lda = g.under(),
                                      .ldb = g.places(),
                                      .ldc = g.places(),
                                      .transpose_a = true});
      T* to = dx.data<T>() + image * g.image();
      const T* from = columns.data<T>();
      for_each_under(g, [&](std::int64_t row, std::int64_t place, std::int64_t element) {
        to[element] += from[row * g.places() + place];
      });
    }
  });
  return dx;
}

Tensor conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Shape& weight,
                              const Conv2dOptions& options) {
  check_floating(dy, x, "conv2d_backward_weight");
  const Geometry g = geometry_of(x.shape(), weight, options);
  Tensor dw = Tensor::zeros(weight, dy.dtype());
  const Tensor gradient = dy.contiguous(), in = x.contiguous();
  const Tensor columns = make_columns(g, dy.dtype());
  visit_floating(dy.dtype(), [&]<class T>() {
    for (std::int64_t image = 0; image < g.n; ++image) {
      fill_columns(g, columns.data<T>(), in.data<T>() + image * g.image());
      // dw(outputs, under) += dy(outputs, places) columns(under, places)^T
      dw.device().matmul(dw.dtype(), {.m = g.outputs,
                                      .n = g.under(),
                                      .k = g.places(),
                                      .a = gradient.data<T>() + image * g.outputs * g.places(),
                                      .b = columns.data_ptr(),
                                      .c = dw.data_ptr(),
                                      .lda = g.places(),
                                      .ldb = g.places(),
                                      .ldc = g.under(),
                                      .transpose_b = true,
                                      .beta = 1});
    }
  });
  return dw;
}

Pooled max_pool2d(const Tensor& x, std::int64_t kernel, std::int64_t stride) {
  constexpr const char* kCall = "max_pool2d";
  check_floating(x, x, kCall);
  check(x.rank() == 4 && kernel >= 1 && stride >= 1 && x.size(2) >= kernel && x.size(3) >= kernel,
        ErrorKind::invalid_argument, kCall, "needs x(n,c,h,w) that a kernel fits, given ",
        x.shape(), ", kernel ", kernel, " and stride ", stride);
  const std::int64_t h = x.size(2), w = x.size(3);
  const Shape shape{x.size(0), x.size(1), (h - kernel) / stride + 1, (w - kernel) / stride + 1};
  Pooled pooled{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, DType::i64)};
  const Tensor in = x.contiguous();
  visit_floating(x.dtype(), [&]<class T>() {
    const auto below = [](T a, T b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
    T* value = pooled.values.data<T>();
    std::int64_t* index = pooled.index.data<std::int64_t>();
    for (std::int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane) {
      const T* from = in.data<T>() + plane * h * w;
      for (std::int64_t i = 0; i < shape[2]; ++i) {
        for (std::int64_t j = 0; j < shape[3]; ++j, ++value, ++index) {
          *index = i * stride * w + j * stride;
          for (std::int64_t p = 0; p < kernel; ++p) {
            for (std::int64_t q = 0; q < kernel; ++q) {
              const std::int64_t at = (i * stride + p) * w + j * stride + q;
              if (below(from[*index], from[at])) *index = at;
            }
          }
          *value = from[*index];
        }
      }
    }
  });
  return pooled;
}

Tensor max_pool2d_backward(const Tensor& dy, const Tensor& index, const Shape& x) {
  constexpr const char* kCall = "max_pool2d_backward";
  check_floating(dy, dy, kCall);
  check(index.shape() == dy.shape() && x.rank() == 4, ErrorKind::invalid_argument, kCall,
        "gradient ", dy.shape(), " and index ", index.shape(), " do not fit ", x);
  Tensor dx = Tensor::zeros(x, dy.dtype());
  const Tensor gradient = dy.contiguous();
  const std::int64_t places = dy.size(2) * dy.size(3);
  visit_floating(dy.dtype(), [&]<class T>() {
    for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
      T* to = dx.data<T>() + plane * x[2] * x[3];
      for (std::int64_t place = plane * places; place < (plane + 1) * places; ++place)
        to[index.data<std::int64_t>()[place]] += gradient.data<T>()[place];
    }
  });
  return dx;
}

}  // namespace shoal::ops
