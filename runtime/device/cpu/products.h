#pragma once

// Products of matrices. Included as spans.h is.

#include <new>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/device/cpu/spans.h"
#include "shoal/runtime/device/device.h"

namespace shoal::SHOAL_CPU_SET {

// Memory for Eigen to pack parts of the operands into, and how large the parts are: so many rows
// and columns of the left one at a time that they stay in a cache of the second level. Near the
// best for every size tried, with AVX2 and AVX-512, on one processor (AMD EPYC, 1 MiB); Eigen's own
// choice, from what the processor says of its caches, was ten times slower for some, and takes heap
// memory.
template <class T>
class Blocking : public Eigen::internal::level3_blocking<T, T> {
 public:
  Blocking(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    this->m_kc = depth < kDepth ? depth : kDepth;
    this->m_mc = rows < kRows ? rows : kRows;
    this->m_nc = columns < kColumns ? columns : kColumns;
    this->m_blockA = static_cast<T*>(cache_allocate(left_bytes()));
    this->m_blockB = static_cast<T*>(cache_allocate(right_bytes()));
  }
  ~Blocking() {
    cache_deallocate(this->m_blockA, left_bytes());
    cache_deallocate(this->m_blockB, right_bytes());
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

  [[nodiscard]] bool has_memory() const {
    return this->m_blockA != nullptr && this->m_blockB != nullptr;
  }

 private:
  static constexpr std::int64_t kDepth = 256, kRows = 192, kColumns = 1024;
  [[nodiscard]] std::size_t left_bytes() const {
    return static_cast<std::size_t>(this->m_kc * this->m_mc) * sizeof(T);
  }
  [[nodiscard]] std::size_t right_bytes() const {
    return static_cast<std::size_t>(this->m_kc * this->m_nc) * sizeof(T);
  }
};

// c += a b. Eigen's product is of matrices stored by columns, which ours are when transposed:
// c^T += b^T a^T.
template <class T, bool kTransposeA, bool kTransposeB>
void multiply_blocks(const Matmul& p) {
  constexpr int kLeft = kTransposeB ? Eigen::RowMajor : Eigen::ColMajor;
  constexpr int kRight = kTransposeA ? Eigen::RowMajor : Eigen::ColMajor;
  Blocking<T> blocking(p.n, p.m, p.k);
  if (!blocking.has_memory()) throw std::bad_alloc();
  Eigen::internal::general_matrix_matrix_product<std::int64_t, T, kLeft, false, T, kRight, false,
                                                 Eigen::ColMajor,
                                                 1>::run(p.n, p.m, p.k, static_cast<const T*>(p.b),
                                                         p.ldb, static_cast<const T*>(p.a), p.lda,
                                                         static_cast<T*>(p.c), 1, p.ldc, T{1},
                                                         blocking, nullptr);
}

// c(n) = a(k) B for one row, or c(m) = A b for one column; the vectors lie without gaps.
template <class T>
void multiply_vector(const T* matrix, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                     bool transposed, const T* vector, T* result, bool add) {
  using Stride = Eigen::OuterStride<>;
  using Matrix = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                            0, Stride>;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  const Matrix m(matrix, rows, columns, Stride(leading));
  const Eigen::Map<const Vector> v(vector, transposed ? rows : columns);
  Eigen::Map<Vector> y(result, transposed ? columns : rows);
  if (!add) y.setZero();
  if (transposed) {
    y.noalias() += m.transpose() * v;
  } else {
    y.noalias() += m * v;
  }
}

// c(m,n) = a(m) b(n), + c. Not by Eigen, which first brings each row to an aligned address: rows
// are short.
template <class T>
void multiply_outer(const Matmul& p, const T* a, std::int64_t stride, const T* b, T* c) {
  for (std::int64_t i = 0; i < p.m; ++i, a += stride, c += p.ldc) {
    const T factor = *a;
    if (p.beta == 0) {
      for (std::int64_t j = 0; j < p.n; ++j) c[j] = factor * b[j];
    } else {
      for (std::int64_t j = 0; j < p.n; ++j) c[j] += factor * b[j];
    }
  }
}

template <class T>
void multiply(const Matmul& p) {
  const auto* a = static_cast<const T*>(p.a);
  const auto* b = static_cast<const T*>(p.b);
  auto* c = static_cast<T*>(p.c);
  if (p.m == 0 || p.n == 0) return;
  // How far apart the elements of a row of a, of a column of b, are.
  const std::int64_t along_a = p.transpose_a ? p.lda : 1, along_b = p.transpose_b ? 1 : p.ldb;
  if (p.m == 1 && (along_a == 1 || p.k == 1)) {
    const std::int64_t rows = p.transpose_b ? p.n : p.k, columns = p.transpose_b ? p.k : p.n;
    return multiply_vector(b, rows, columns, p.ldb, !p.transpose_b, a, c, p.beta != 0);
  }
  if (p.n == 1 && p.ldc == 1 && (along_b == 1 || p.k == 1)) {
    const std::int64_t rows = p.transpose_a ? p.k : p.m, columns = p.transpose_a ? p.m : p.k;
    return multiply_vector(a, rows, columns, p.lda, p.transpose_a, b, c, p.beta != 0);
  }
  if (p.k == 1 && (!p.transpose_b || p.ldb == 1))
    return multiply_outer(p, a, p.transpose_a ? 1 : p.lda, b, c);
  if (p.beta == 0)
    for (std::int64_t i = 0; i < p.m; ++i) span_of<T>(c + i * p.ldc, p.n).setZero();
  if (p.k == 0) return;
  if (p.transpose_a && p.transpose_b) {
    multiply_blocks<T, true, true>(p);
  } else if (p.transpose_a) {
    multiply_blocks<T, true, false>(p);
  } else if (p.transpose_b) {
    multiply_blocks<T, false, true>(p);
  } else {
    multiply_blocks<T, false, false>(p);
  }
}

}  // namespace shoal::SHOAL_CPU_SET
