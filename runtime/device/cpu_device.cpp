#include <sys/mman.h>

#include <Eigen/Core>
#include <cstdlib>
#include <cstring>
#include <new>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/cpu_cast.h"
#include "shoal/runtime/device/device.h"
#include "shoal/runtime/device/dispatch.h"

// Each verb is an Eigen expression over the caller's bytes.
namespace shoal {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = 2 * kHugePage;

template <class T>
using Span = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstSpan = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using Rows = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
Span<T> span_of(void* data, std::int64_t n) {
  return {static_cast<T*>(data), n};
}
template <class T>
ConstSpan<T> span_of(const void* data, std::int64_t n) {
  return {static_cast<const T*>(data), n};
}
template <class T>
Eigen::Map<Rows<T>> rows_of(void* data, std::int64_t rows, std::int64_t n) {
  return {static_cast<T*>(data), rows, n};
}
template <class T>
Eigen::Map<const Rows<T>> rows_of(const void* data, std::int64_t rows, std::int64_t n) {
  return {static_cast<const T*>(data), rows, n};
}

template <class T>
void copy_axes(T* to, const T* from, std::span<const CopyAxis> axes) {
  if (axes.empty()) {
    *to = *from;
    return;
  }
  const auto& [size, to_stride, from_stride] = axes.front();
  if (axes.size() > 1) {
    for (std::int64_t i = 0; i < size; ++i)
      copy_axes(to + i * to_stride, from + i * from_stride, axes.subspan(1));
  } else if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(size) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < size; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

template <class T>
void multiply(const Matmul& p) {
  using Stride = Eigen::OuterStride<>;
  using In = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Stride>;
  const auto* a = static_cast<const T*>(p.a);
  const auto* b = static_cast<const T*>(p.b);
  Eigen::Map<Matrix<T>, Eigen::Unaligned, Stride> c(static_cast<T*>(p.c), p.m, p.n, Stride(p.ldc));
  if (p.beta == 0) c.setZero();
  if (p.transpose_a && p.transpose_b) {
    c.noalias() +=
        In(a, p.k, p.m, Stride(p.lda)).transpose() * In(b, p.n, p.k, Stride(p.ldb)).transpose();
  } else if (p.transpose_a) {
    c.noalias() += In(a, p.k, p.m, Stride(p.lda)).transpose() * In(b, p.k, p.n, Stride(p.ldb));
  } else if (p.transpose_b) {
    c.noalias() += In(a, p.m, p.k, Stride(p.lda)) * In(b, p.n, p.k, Stride(p.ldb)).transpose();
  } else {
    c.noalias() += In(a, p.m, p.k, Stride(p.lda)) * In(b, p.k, p.n, Stride(p.ldb));
  }
}

template <class T>
void step_sgd(const SgdStep& s, T* w, const T* g, T* velocity, std::int64_t n) {
  const T lr = static_cast<T>(s.lr), mu = static_cast<T>(s.momentum);
  const T keep = static_cast<T>(1 - s.dampening), decay = static_cast<T>(s.weight_decay);
  for (std::int64_t i = 0; i < n; ++i) {
    T d = g[i];
    if (decay != 0) d += decay * w[i];
    if (mu != 0) {
      velocity[i] = s.first ? d : mu * velocity[i] + keep * d;
      d = s.nesterov ? d + mu * velocity[i] : velocity[i];
    }
    w[i] -= lr * d;
  }
}

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }

  void* allocate(std::size_t nbytes) override {
    const std::size_t alignment = nbytes < kHugeFrom ? kAlignment : kHugePage;
    const std::size_t padded = (nbytes + alignment - 1) / alignment * alignment;
    void* data = padded < nbytes ? nullptr : std::aligned_alloc(alignment, padded);
    if (data == nullptr) throw_errno(ENOMEM, "aligned_alloc", concat(nbytes, " bytes"));
    // One fault for 512 pages, and as little work when they go. The rest stays in small pages, as
    // all does if no huge ones are to be had.
    if (nbytes >= kHugeFrom) ::madvise(data, nbytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return data;
  }
  void deallocate(void* data) noexcept override { std::free(data); }

  void copy(void* to, const void* from, std::size_t nbytes) override {
    if (nbytes > 0) std::memmove(to, from, nbytes);
  }

  void copy_strided(DType dtype, void* to, const void* from,
                    std::span<const CopyAxis> axes) override {
    // Bytes are copied as they are, also those that no bool may be.
    visit_dtype(dtype == DType::boolean ? DType::u8 : dtype, [&]<class T>() {
      copy_axes(static_cast<T*>(to), static_cast<const T*>(from), axes);
    });
  }

  void cast(DType to_dtype, void* y, DType from_dtype, const void* x, std::int64_t n) override {
    cpu_cast(to_dtype, y, from_dtype, x, n);
  }

  void fill(DType dtype, void* y, double value, std::int64_t n) override {
    visit_dtype(dtype, [&]<class T>() {
      T element;
      cpu_cast(dtype, &element, DType::f64, &value, 1);
      std::fill_n(static_cast<T*>(y), n, element);
    });
  }

  void unary(UnaryOp op, DType dtype, void* y, const void* x, std::int64_t n) override {
    visit_floating(dtype, [&]<class T>() {
      auto out = span_of<T>(y, n);
      const auto in = span_of<T>(x, n);
      switch (op) {
        case UnaryOp::negate:
          out = -in;
          break;
        // Not max(0, x): a NaN must stay one.
        case UnaryOp::relu:
          out = (in < T{0}).select(T{0}, in);
          break;
        case UnaryOp::square:
          out = in.square();
          break;
        case UnaryOp::abs:
          out = in.abs();
          break;
        case UnaryOp::sign:
          out = in.sign();
          break;
        case UnaryOp::exp:
          out = in.exp();
          break;
        case UnaryOp::log:
          out = in.log();
          break;
        case UnaryOp::sqrt:
          out = in.sqrt();
          break;
        // exp may overflow to infinity, which is right: 1 / (1 + inf) = 0.
        case UnaryOp::sigmoid:
          out = (T{1} + (-in).exp()).inverse();
          break;
        case UnaryOp::tanh:
          out = in.tanh();
          break;
      }
    });
  }

  void binary(BinaryOp op, DType dtype, void* y, const void* a, const void* b,
              std::int64_t n) override {
    visit_floating(dtype, [&]<class T>() {
      auto out = span_of<T>(y, n);
      const auto left = span_of<T>(a, n), right = span_of<T>(b, n);
      switch (op) {
        case BinaryOp::add:
          out = left + right;
          break;
        case BinaryOp::subtract:
          out = left - right;
          break;
        case BinaryOp::multiply:
          out = left * right;
          break;
        case BinaryOp::divide:
          out = left / right;
          break;
        case BinaryOp::relu_backward:
          out = (right > T{0}).select(left, T{0});
          break;
        case BinaryOp::sigmoid_backward:
          out = left * right * (T{1} - right);
          break;
        case BinaryOp::tanh_backward:
          out = left * (T{1} - right.square());
          break;
      }
    });
  }

  void scale(DType dtype, void* y, double alpha, const void* x, std::int64_t n) override {
    visit_floating(dtype,
                   [&]<class T>() { span_of<T>(y, n) = static_cast<T>(alpha) * span_of<T>(x, n); });
  }

  void axpy(DType dtype, void* y, double alpha, const void* x, std::int64_t n) override {
    visit_floating(
        dtype, [&]<class T>() { span_of<T>(y, n) += static_cast<T>(alpha) * span_of<T>(x, n); });
  }

  void matmul(DType dtype, const Matmul& product) override {
    visit_floating(dtype, [&]<class T>() { multiply<T>(product); });
  }

  void sum(DType dtype, void* y, const void* x, std::int64_t outer, std::int64_t n,
           std::int64_t inner) override {
    visit_floating(dtype, [&]<class T>() {
      for (std::int64_t o = 0; o < outer; ++o) {
        const auto block = rows_of<T>(static_cast<const T*>(x) + o * n * inner, n, inner);
        auto out = span_of<T>(static_cast<T*>(y) + o * inner, inner);
        if (inner == 1) {
          out[0] = block.sum();
          continue;
        }
        out.setZero();
        for (std::int64_t i = 0; i < n; ++i) out += block.row(i).transpose();
      }
    });
  }

  void log_softmax(DType dtype, void* y, const void* x, std::int64_t rows,
                   std::int64_t n) override {
    if (n == 0) return;
    visit_floating(dtype, [&]<class T>() {
      auto out = rows_of<T>(y, rows, n);
      const auto in = rows_of<T>(x, rows, n);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T top = in.row(r).maxCoeff();
        out.row(r) = in.row(r) - top;
        out.row(r) -= std::log(out.row(r).exp().sum());
      }
    });
  }

  void log_softmax_backward(DType dtype, void* dx, const void* dy, const void* y, std::int64_t rows,
                            std::int64_t n) override {
    visit_floating(dtype, [&]<class T>() {
      auto out = rows_of<T>(dx, rows, n);
      const auto gradient = rows_of<T>(dy, rows, n), logp = rows_of<T>(y, rows, n);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T total = gradient.row(r).sum();
        out.row(r) = gradient.row(r) - logp.row(r).exp() * total;
      }
    });
  }

  void take(DType dtype, void* y, const void* x, const std::int64_t* index, std::int64_t rows,
            std::int64_t n) override {
    visit_floating(dtype, [&]<class T>() {
      for (std::int64_t r = 0; r < rows; ++r)
        static_cast<T*>(y)[r] = static_cast<const T*>(x)[r * n + index[r]];
    });
  }

  void add_at(DType dtype, void* y, double alpha, const std::int64_t* index, std::int64_t rows,
              std::int64_t n) override {
    visit_floating(dtype, [&]<class T>() {
      for (std::int64_t r = 0; r < rows; ++r)
        static_cast<T*>(y)[r * n + index[r]] += static_cast<T>(alpha);
    });
  }

  void sgd(DType dtype, const SgdStep& step, void* w, const void* g, void* velocity,
           std::int64_t n) override {
    visit_floating(dtype, [&]<class T>() {
      step_sgd(step, static_cast<T*>(w), static_cast<const T*>(g), static_cast<T*>(velocity), n);
    });
  }
};

}  // namespace

Device& cpu() {
  static auto* device = new CpuDevice;  // statics may still hold memory of it
  return *device;
}

namespace {

// Before there are threads: one that forks while another makes a static has a child that waits.
[[maybe_unused]] const Device& made_at_load = cpu();

}  // namespace

}  // namespace shoal
