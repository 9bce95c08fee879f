#pragma once

// What the cpu computes: each verb for f32 and f64. Each instruction set's source defines
// SHOAL_CPU_SET, a namespace, and Eigen, another name for it, includes this, and is compiled with
// the flags of its set. Nothing of it may be shared with other sources, since the linker would keep
// either's: so no templates of the standard library that are not inlined, no exceptions with text.

#include <Eigen/Core>
#include <cmath>
#include <new>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/device/cpu/cpu_device.h"
#include "shoal/runtime/device/cpu/elementwise.h"
#include "shoal/runtime/device/cpu/images.h"
#include "shoal/runtime/device/cpu/products.h"
#include "shoal/runtime/device/cpu/rows.h"
#include "shoal/runtime/device/cpu/spans.h"

namespace shoal::SHOAL_CPU_SET {

template <class F>
void for_type(DType dtype, F f) {
  if (dtype == DType::f64) {
    f.template operator()<double>();
  } else {
    f.template operator()<float>();
  }
}

template <class T>
T* as(void* data) {
  return static_cast<T*>(data);
}
template <class T>
const T* as(const void* data) {
  return static_cast<const T*>(data);
}

class Verbs final : public CpuDevice {
 public:
  void unary(UnaryOp op, DType dtype, void* y, const void* x, std::int64_t n) override {
    for_type(dtype, [&]<class T>() { SHOAL_CPU_SET::unary(op, as<T>(y), as<T>(x), n); });
  }
  void binary(BinaryOp op, DType dtype, void* y, const void* a, const void* b,
              std::int64_t n) override {
    for_type(dtype, [&]<class T>() { SHOAL_CPU_SET::binary(op, as<T>(y), as<T>(a), as<T>(b), n); });
  }
  void scale(DType dtype, void* y, double alpha, const void* x, std::int64_t n) override {
    for_type(dtype,
             [&]<class T>() { span_of<T>(y, n) = static_cast<T>(alpha) * span_of<T>(x, n); });
  }
  void axpy(DType dtype, void* y, double alpha, const void* x, std::int64_t n) override {
    for_type(dtype,
             [&]<class T>() { span_of<T>(y, n) += static_cast<T>(alpha) * span_of<T>(x, n); });
  }
  void matmul(DType dtype, const Matmul& product) override {
    for_type(dtype, [&]<class T>() { multiply<T>(product); });
  }
  void sum(DType dtype, void* y, const void* x, std::int64_t outer, std::int64_t n,
           std::int64_t inner, bool add) override {
    for_type(dtype,
             [&]<class T>() { SHOAL_CPU_SET::sum(as<T>(y), as<T>(x), outer, n, inner, add); });
  }
  void log_softmax(DType dtype, void* y, const void* x, std::int64_t rows,
                   std::int64_t n) override {
    for_type(dtype, [&]<class T>() { SHOAL_CPU_SET::log_softmax(as<T>(y), as<T>(x), rows, n); });
  }
  void log_softmax_backward(DType dtype, void* dx, const void* dy, const void* y, std::int64_t rows,
                            std::int64_t n) override {
    for_type(dtype, [&]<class T>() {
      SHOAL_CPU_SET::log_softmax_backward(as<T>(dx), as<T>(dy), as<T>(y), rows, n);
    });
  }
  void cross_entropy(DType dtype, void* loss, void* dx, const void* x, const std::int64_t* targets,
                     std::int64_t rows, std::int64_t n) override {
    for_type(dtype, [&]<class T>() {
      SHOAL_CPU_SET::cross_entropy(as<T>(loss), as<T>(dx), as<T>(x), targets, rows, n);
    });
  }
  void take(DType dtype, void* y, const void* x, const std::int64_t* index, std::int64_t rows,
            std::int64_t n) override {
    for_type(dtype, [&]<class T>() {
      for (std::int64_t r = 0; r < rows; ++r) as<T>(y)[r] = as<T>(x)[r * n + index[r]];
    });
  }
  void add_at(DType dtype, void* y, double alpha, const std::int64_t* index, std::int64_t rows,
              std::int64_t n) override {
    for_type(dtype, [&]<class T>() {
      for (std::int64_t r = 0; r < rows; ++r) as<T>(y)[r * n + index[r]] += static_cast<T>(alpha);
    });
  }
  void gather_rows(DType dtype, void* y, const void* table, const std::int64_t* index,
                   std::int64_t count, std::int64_t d) override {
    for_type(dtype, [&]<class T>() {
      SHOAL_CPU_SET::gather_rows(as<T>(y), as<T>(table), index, count, d);
    });
  }
  void add_rows(DType dtype, void* table, double alpha, const void* rows, const std::int64_t* index,
                const std::int64_t* source, std::int64_t count, std::int64_t d) override {
    for_type(dtype, [&]<class T>() {
      SHOAL_CPU_SET::add_rows(as<T>(table), static_cast<T>(alpha), as<T>(rows), index, source,
                              count, d);
    });
  }
  void sum_bags(DType dtype, void* y, double alpha, const void* table, const std::int64_t* index,
                std::int64_t bags, std::int64_t size, std::int64_t d) override {
    for_type(dtype, [&]<class T>() {
      SHOAL_CPU_SET::sum_bags(as<T>(y), static_cast<T>(alpha), as<T>(table), index, bags, size, d);
    });
  }
  void unfold(DType dtype, void* columns, const void* x, const Windows& windows) override {
    for_type(dtype, [&]<class T>() { SHOAL_CPU_SET::unfold(as<T>(columns), as<T>(x), windows); });
  }
  void fold(DType dtype, void* x, const void* columns, const Windows& windows) override {
    for_type(dtype, [&]<class T>() { SHOAL_CPU_SET::fold(as<T>(x), as<T>(columns), windows); });
  }
  void max_pool(DType dtype, void* y, std::int64_t* index, const void* x,
                const Windows& windows) override {
    for_type(dtype,
             [&]<class T>() { SHOAL_CPU_SET::max_pool(as<T>(y), index, as<T>(x), windows); });
  }
  void max_pool_backward(DType dtype, void* dx, const void* dy, const std::int64_t* index,
                         const Windows& windows) override {
    for_type(dtype, [&]<class T>() {
      SHOAL_CPU_SET::max_pool_backward(as<T>(dx), as<T>(dy), index, windows);
    });
  }
  void sgd(DType dtype, const SgdStep& step, void* w, const void* g, void* velocity,
           std::int64_t n) override {
    for_type(dtype, [&]<class T>() { step_sgd(step, as<T>(w), as<T>(g), as<T>(velocity), n); });
  }
};

Device* make_device() { return new Verbs; }

}  // namespace shoal::SHOAL_CPU_SET
