#pragma once

#include <Eigen/Core>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/tensor.h"

// A tensor's bytes as Eigen sees them, for callers who use Eigen; the rest of Shoal's headers do
// not need it. A map owns nothing: it is good while the tensor's storage is.
namespace shoal {

template <class T>
using EigenMatrixMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                                  Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

template <class T>
using EigenVectorMap =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>, Eigen::Unaligned, Eigen::InnerStride<>>;

// A tensor of two axes, transposed and sliced ones included.
template <class T>
[[nodiscard]] EigenMatrixMap<T> eigen_matrix(const Tensor& tensor) {
  check(tensor.rank() == 2, ErrorKind::invalid_argument, "eigen_matrix", "shape ", tensor.shape(),
        " is not that of a matrix");
  return {tensor.data<T>(), tensor.size(0), tensor.size(1),
          Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(tensor.strides()[0], tensor.strides()[1])};
}

// A tensor of one axis.
template <class T>
[[nodiscard]] EigenVectorMap<T> eigen_vector(const Tensor& tensor) {
  check(tensor.rank() == 1, ErrorKind::invalid_argument, "eigen_vector", "shape ", tensor.shape(),
        " is not that of a vector");
  return {tensor.data<T>(), tensor.size(0), Eigen::InnerStride<>(tensor.strides()[0])};
}

}  // namespace shoal
