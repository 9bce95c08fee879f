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
  bool first = false;  // the velocity starts as the gradient
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
  virtual ~Device() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  // 64-byte aligned, contents undefined. Throws Error(no_space).
  [[nodiscard]] virtual void* allocate(std::size_t nbytes) = 0;
  virtual void deallocate(void* data) noexcept = 0;

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

  // y(outer, inner) = sum over the middle axis of x(outer, n, inner).
  virtual void sum(DType dtype, void* y, const void* x, std::int64_t outer, std::int64_t n,
                   std::int64_t inner) = 0;

  // Along the last axis of x(rows, n).
  virtual void log_softmax(DType dtype, void* y, const void* x, std::int64_t rows,
                           std::int64_t n) = 0;
  // dx = dy - exp(y) sum(dy), where y is log_softmax's result.
  virtual void log_softmax_backward(DType dtype, void* dx, const void* dy, const void* y,
                                    std::int64_t rows, std::int64_t n) = 0;

  // y[r] = x[r][index[r]] of x(rows, n); every index is below n.
  virtual void take(DType dtype, void* y, const void* x, const std::int64_t* index,
                    std::int64_t rows, std::int64_t n) = 0;
  // y[r][index[r]] += alpha, for each row r of y(rows, n).
  virtual void add_at(DType dtype, void* y, double alpha, const std::int64_t* index,
                      std::int64_t rows, std::int64_t n) = 0;

  // w, and velocity where momentum is not zero, in place.
  virtual void sgd(DType dtype, const SgdStep& step, void* w, const void* g, void* velocity,
                   std::int64_t n) = 0;
};

// The processor, and the reference for every other device.
[[nodiscard]] Device& cpu();

}  // namespace shoal
