#pragma once

// Included by each instruction set's source, which says what Eigen and SHOAL_CPU_SET are called
// there: the same templates under one name, compiled with different flags, would be one function to
// the linker.

#include <Eigen/Core>
#include <cstdint>

namespace shoal::SHOAL_CPU_SET {

template <class T>
using Span = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstSpan = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using Rows = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using ConstRows =
    Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

template <class T>
Span<T> span_of(void* data, std::int64_t n) {
  return {static_cast<T*>(data), n};
}
template <class T>
ConstSpan<T> span_of(const void* data, std::int64_t n) {
  return {static_cast<const T*>(data), n};
}
template <class T>
Rows<T> rows_of(void* data, std::int64_t rows, std::int64_t n) {
  return {static_cast<T*>(data), rows, n};
}
template <class T>
ConstRows<T> rows_of(const void* data, std::int64_t rows, std::int64_t n) {
  return {static_cast<const T*>(data), rows, n};
}

}  // namespace shoal::SHOAL_CPU_SET
