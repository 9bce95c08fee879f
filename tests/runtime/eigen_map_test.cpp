#include "shoal/runtime/tensor/eigen_map.h"

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace shoal {
namespace {

using test::element;
using test::refuses;

TEST(EigenMatrix, SeesTheSameElementsInEveryLayout) {
  const Tensor base = Tensor::arange(0, 30, DType::f64).reshape({5, 6});
  for (const Tensor& tensor : {base, base.transpose(), base.slice(0, 1, 5, 2).slice(1, 2, 6, 3),
                               base.slice(1, 1, 4).transpose(), base.slice(0, 0, 1).expand({4, 6}),
                               base.slice(1, 0, 1).expand({5, 3}), base.slice(0, 2, 2)}) {
    const auto map = eigen_matrix<double>(tensor);
    ASSERT_EQ(map.rows(), tensor.size(0));
    ASSERT_EQ(map.cols(), tensor.size(1));
    for (Eigen::Index i = 0; i < map.rows(); ++i)
      for (Eigen::Index j = 0; j < map.cols(); ++j)
        EXPECT_EQ(map(i, j), element<double>(tensor, {i, j}));
  }
}

TEST(EigenMatrix, WritesThroughAndComputes) {
  const Tensor base = Tensor::zeros({4, 6}, DType::i32);
  eigen_matrix<std::int32_t>(base.slice(1, 0, 6, 2).transpose()).row(1).setConstant(7);
  EXPECT_TRUE(equal(base.select(1, 2), Tensor::full({4}, 7, DType::i32)));
  EXPECT_EQ(eigen_matrix<std::int32_t>(base).sum(), 28);
  const Tensor a = Tensor::arange(0, 6, DType::f32).reshape({2, 3});
  const Eigen::MatrixXf product = eigen_matrix<float>(a) * eigen_matrix<float>(a.transpose());
  EXPECT_EQ(product(1, 1), 50);
}

TEST(EigenVector, SeesRowsAndColumns) {
  const Tensor base = Tensor::arange(0, 6, DType::f32).reshape({2, 3});
  EXPECT_EQ(eigen_vector<float>(base.select(0, 1)), Eigen::Vector3f(3, 4, 5));
  EXPECT_EQ(eigen_vector<float>(base.select(1, 1)), Eigen::Vector2f(1, 4));
  EXPECT_EQ(eigen_vector<float>(base.select(0, 0).slice(0, 0, 3, 2)), Eigen::Vector2f(0, 2));
  EXPECT_EQ(eigen_vector<float>(Tensor::full({1}, 2).expand({3})), Eigen::Vector3f(2, 2, 2));
  EXPECT_EQ(eigen_vector<float>(Tensor::zeros({0})).size(), 0);
}

TEST(EigenMaps, RefuseOtherRanksAndTypes) {
  const Tensor matrix = Tensor::zeros({2, 3});
  EXPECT_TRUE(refuses([&] { (void)eigen_vector<float>(matrix); }, {"eigen_vector", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)eigen_matrix<float>(matrix.select(0, 0)); }, {"[3]"}));
  EXPECT_TRUE(refuses([&] { (void)eigen_matrix<double>(matrix); }, {"f32", "f64"}));
  EXPECT_TRUE(refuses([] { (void)eigen_matrix<float>(Tensor()); }));
}

}  // namespace
}  // namespace shoal
