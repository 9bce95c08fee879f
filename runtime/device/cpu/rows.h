#pragma once

// Sums, and what concerns rows. Included as spans.h is.

#include <cmath>

#include "shoal/runtime/device/cpu/elementwise.h"
#include "shoal/runtime/device/cpu/spans.h"

namespace shoal::SHOAL_CPU_SET {

template <class T>
void sum(T* y, const T* x, std::int64_t outer, std::int64_t n, std::int64_t inner, bool add) {
  for (std::int64_t o = 0; o < outer; ++o) {
    const auto block = rows_of<T>(x + o * n * inner, n, inner);
    auto out = span_of<T>(y + o * inner, inner);
    if (!add) out.setZero();
    if (inner == 1) {
      out[0] += block.sum();
    } else {
      for (std::int64_t i = 0; i < n; ++i) out += block.row(i).transpose();
    }
  }
}

template <class T>
void log_softmax(T* y, const T* x, std::int64_t rows, std::int64_t n) {
  auto out = rows_of<T>(y, rows, n);
  const auto in = rows_of<T>(x, rows, n);
  for (std::int64_t r = 0; r < rows && n > 0; ++r) {
    const T top = in.row(r).maxCoeff();
    out.row(r) = in.row(r) - top;
    out.row(r) -= std::log(out.row(r).exp().sum());
  }
}

template <class T>
void log_softmax_backward(T* dx, const T* dy, const T* y, std::int64_t rows, std::int64_t n) {
  auto out = rows_of<T>(dx, rows, n);
  const auto gradient = rows_of<T>(dy, rows, n), logp = rows_of<T>(y, rows, n);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T total = gradient.row(r).sum();
    out.row(r) = gradient.row(r) - logp.row(r).exp() * total;
  }
}

template <class T>
void cross_entropy(T* loss, T* dx, const T* x, const std::int64_t* targets, std::int64_t rows,
                   std::int64_t n) {
  auto out = rows_of<T>(dx, rows, n);
  const auto in = rows_of<T>(x, rows, n);
  if (n == 0) span_of<T>(loss, rows).setZero();
  for (std::int64_t r = 0; r < rows && n > 0; ++r) {
    out.row(r) = in.row(r) - in.row(r).maxCoeff();
    loss[r] = targets[r] < 0 ? T{0} : -out(r, targets[r]);
  }
  // Of all rows at once: one may be shorter than a register.
  exp_of(dx, dx, rows * n);
  for (std::int64_t r = 0; r < rows && n > 0; ++r) {
    if (targets[r] < 0) {
      out.row(r).setZero();
      continue;
    }
    const T total = out.row(r).sum();
    loss[r] += std::log(total);
    out.row(r) /= total;
    out(r, targets[r]) -= T{1};
  }
}

// Calls f(first, array) for pieces of a row of d elements, where array is the type of so many that
// they stay in registers.
template <class T, class F>
void for_each_piece(std::int64_t d, F f) {
  std::int64_t i = 0;
  for (; i + 64 <= d; i += 64) f(i, Eigen::Array<T, 64, 1>());
  for (; i + 8 <= d; i += 8) f(i, Eigen::Array<T, 8, 1>());
  for (; i < d; ++i) f(i, Eigen::Array<T, 1, 1>());
}

template <class T>
void gather_rows(T* y, const T* table, const std::int64_t* index, std::int64_t count,
                 std::int64_t d) {
  for_each_piece<T>(d, [&]<class Piece>(std::int64_t first, Piece /*type*/) {
    for (std::int64_t i = 0; i < count; ++i)
      Eigen::Map<Piece>(y + i * d + first) = Eigen::Map<const Piece>(table + index[i] * d + first);
  });
}

template <class T>
void add_rows(T* table, T alpha, const T* rows, const std::int64_t* index,
              const std::int64_t* source, std::int64_t count, std::int64_t d) {
  for_each_piece<T>(d, [&]<class Piece>(std::int64_t first, Piece /*type*/) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = source == nullptr ? i : source[i];
      Eigen::Map<Piece>(table + index[i] * d + first) +=
          alpha * Eigen::Map<const Piece>(rows + from * d + first);
    }
  });
}

template <class T>
void sum_bags(T* y, T alpha, const T* table, const std::int64_t* index, std::int64_t bags,
              std::int64_t size, std::int64_t d) {
  for_each_piece<T>(d, [&]<class Piece>(std::int64_t first, Piece sum) {
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      sum.setZero();
      for (std::int64_t i = bag * size; i < (bag + 1) * size; ++i)
        sum += Eigen::Map<const Piece>(table + index[i] * d + first);
      Eigen::Map<Piece>(y + bag * d + first) = alpha * sum;
    }
  });
}

}  // namespace shoal::SHOAL_CPU_SET
