#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "shoal/runtime/device/dtype.h"

namespace shoal {

// sign(x) is -1, 0 or 1.
enum class UnaryOp { negate, square, abs, sign, exp, log, sqrt, relu, sigmoid, tanh };

// Of the results y: relu_backward(dy, y) = dy where y > 0, else 0; sigmoid_backward(dy, y) =
// dy y (1 - y); tanh_backward(dy, y) = dy (1 - y^2).
enum class BinaryOp {
  add,
  subtract,
  multiply,
  divide,
  relu_backward,
  sigmoid_backward,
  tanh_backward
};

// c(m,n) = a(m,k) b(k,n) + beta c, row-major. A transposed operand is stored the other way round:
// a as (k,m), b as (n,k). Leading dimensions are the distance between stored rows, in elements.
struct Matmul {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  double beta = 0;  // 0 or 1; with 0, c need not be initialised
};

// One SGD step over n elements; the formula stands in optim/sgd.h.
struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  bool first = false;  // the velocity starts as the gradient
};

// Images x(n, channels, h, w) and what a kernel of (kh, kw) at stride and padding sees of them:
// (out_h, out_w) places, under each channels * kh * kw elements.
struct Windows {
  std::int64_t n = 0, channels = 0, h = 0, w = 0;
  std::int64_t kh = 0, kw = 0, stride = 1, padding = 0;
  std::int64_t out_h = 0, out_w = 0;
  [[nodiscard]] std::int64_t image() const { return channels * h * w; }
  [[nodiscard]] std::int64_t under() const { return channels * kh * kw; }
  [[nodiscard]] std::int64_t places() const { return out_h * out_w; }
};

// One axis of a strided copy: how many, and how far apart in elements on each side.
struct CopyAxis {
  std::int64_t size = 0, to_stride = 0, from_stride = 0;
};

// Who computes: verbs over contiguous spans of elements in memory that this device can reach.
//
// Shapes, broadcasting and checks are the business of ops (runtime/tensor/ops.h); a device trusts
// its arguments. Arithmetic takes f32 and f64; copies, fills and casts take every dtype. `n` counts
// elements. Unless a verb says otherwise y may not overlap its inputs, except to be equal to one.
// Safe to call from many threads at once.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device();

  [[nodiscard]] virtual std::string_view name() const = 0;

  // 64-byte aligned, contents undefined. Throws Error(no_space).
  [[nodiscard]] virtual void* allocate(std::size_t nbytes) = 0;
  // `nbytes` as it was asked for.
  virtual void deallocate(void* data, std::size_t nbytes) noexcept = 0;

  virtual void copy(void* to, const void* from, std::size_t nbytes) = 0;
  // Axes from the outermost to the innermost.
  virtual void copy_strided(DType dtype, void* to, const void* from,
                            std::span<const CopyAxis> axes) = 0;
  virtual void cast(DType to_dtype, void* y, DType from_dtype, const void* x, std::int64_t n) = 0;
  virtual void fill(DType dtype, void* y, double value, std::int64_t n) = 0;

  virtual void unary(UnaryOp op, DType dtype, void* y, const void* x, std::int64_t n) = 0;
  virtual void binary(BinaryOp op, DType dtype, void* y, const void* a, const void* b,
                      std::int64_t n) = 0;
  // y = alpha x, and y += alpha x.
  virtual void scale(DType dtype, void* y, double alpha, const void* x, std::int64_t n) = 0;
  virtual void axpy(DType dtype, void* y, double alpha, const void* x, std::int64_t n) = 0;

  virtual void matmul(DType dtype, const Matmul& product) = 0;

  // y(outer, inner) = sum over the middle axis of x(outer, n, inner), + y if `add`.
  virtual void sum(DType dtype, void* y, const void* x, std::int64_t outer, std::int64_t n,
                   std::int64_t inner, bool add) = 0;

  // Along the last axis of x(rows, n).
  virtual void log_softmax(DType dtype, void* y, const void* x, std::int64_t rows,
                           std::int64_t n) = 0;
  // dx = dy - exp(y) sum(dy), where y is log_softmax's result.
  virtual void log_softmax_backward(DType dtype, void* dx, const void* dy, const void* y,
                                    std::int64_t rows, std::int64_t n) = 0;

  // Of each row r, with target t = targets[r]: loss[r] = -log_softmax(x)[t] and dx = softmax(x),
  // less 1 at t. Both are 0 where t is negative.
  virtual void cross_entropy(DType dtype, void* loss, void* dx, const void* x,
                             const std::int64_t* targets, std::int64_t rows, std::int64_t n) = 0;

  // y[r] = x[r][index[r]] of x(rows, n); every index is below n.
  virtual void take(DType dtype, void* y, const void* x, const std::int64_t* index,
                    std::int64_t rows, std::int64_t n) = 0;
  // y[r][index[r]] += alpha, for each row r of y(rows, n).
  virtual void add_at(DType dtype, void* y, double alpha, const std::int64_t* index,
                      std::int64_t rows, std::int64_t n) = 0;

  // y(count, d) = table(…, d)[index]; and for each i, in turn,
  // table[index[i]] += alpha rows(…, d)[source[i]], or rows[i] where source is null.
  virtual void gather_rows(DType dtype, void* y, const void* table, const std::int64_t* index,
                           std::int64_t count, std::int64_t d) = 0;
  virtual void add_rows(DType dtype, void* table, double alpha, const void* rows,
                        const std::int64_t* index, const std::int64_t* source, std::int64_t count,
                        std::int64_t d) = 0;
  // y(bags, d)[i] = alpha times the sum of table[index[j]] over size j from i * size on.
  virtual void sum_bags(DType dtype, void* y, double alpha, const void* table,
                        const std::int64_t* index, std::int64_t bags, std::int64_t size,
                        std::int64_t d) = 0;

  // Of one image: columns(under, places) has what lies under the kernel, zeros where that is
  // padding; and x(image) += columns, each put back where it came from.
  virtual void unfold(DType dtype, void* columns, const void* x, const Windows& windows) = 0;
  virtual void fold(DType dtype, void* x, const void* columns, const Windows& windows) = 0;
  // y(n, channels, places) = the largest under each window, index where in its plane(h, w) it is:
  // the first of several, and a NaN before all. Then dx[index] += dy.
  virtual void max_pool(DType dtype, void* y, std::int64_t* index, const void* x,
                        const Windows& windows) = 0;
  virtual void max_pool_backward(DType dtype, void* dx, const void* dy, const std::int64_t* index,
                                 const Windows& windows) = 0;

  // w, and velocity where momentum is not zero, in place.
  virtual void sgd(DType dtype, const SgdStep& step, void* w, const void* g, void* velocity,
                   std::int64_t n) = 0;
};

// The processor, and the reference for every other device. What it computes is compiled for several
// instruction sets, and the best that this machine has is taken when the program starts; the
// environment's SHOAL_CPU, "baseline", "avx2" or "avx512", asks for one.
[[nodiscard]] Device& cpu();
// Which one that is.
[[nodiscard]] std::string_view cpu_instruction_set();

}  // namespace shoal
