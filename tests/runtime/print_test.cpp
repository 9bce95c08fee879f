#include <gtest/gtest.h>

#include <cmath>
#include <iomanip>
#include <sstream>

#include "support/tensors.h"

namespace shoal {
namespace {

std::string text_of(const Tensor& tensor) { return concat(tensor); }

TEST(Print, ShowsRowsAsNestedLists) {
  EXPECT_EQ(text_of(Tensor::arange(1, 7, DType::f32).reshape({2, 3})),
            "Tensor f32 [2, 3]\n"
            "[[1, 2, 3],\n"
            " [4, 5, 6]]");
  EXPECT_EQ(text_of(Tensor::arange(0, 4).reshape({2, 2, 1}).transpose(0, 1)),
            "Tensor i64 [2, 2, 1]\n"
            "[[[0],\n"
            "  [2]],\n"
            " [[1],\n"
            "  [3]]]");
}

TEST(Print, ShowsEachKindOfElement) {
  EXPECT_EQ(text_of(Tensor::from({true, false})), "Tensor bool [2]\n[true, false]");
  EXPECT_EQ(text_of(Tensor::from<std::int8_t>({65, -1})), "Tensor i8 [2]\n[65, -1]");
  EXPECT_EQ(text_of(Tensor::from<std::uint8_t>({65, 255})), "Tensor u8 [2]\n[65, 255]");
  EXPECT_EQ(text_of(Tensor::from({0.5f, -1.0f / 3})), "Tensor f32 [2]\n[0.5, -0.333333]");
  EXPECT_EQ(text_of(Tensor::from({1.0 / 3})), "Tensor f64 [1]\n[0.3333333333]");
  EXPECT_EQ(text_of(Tensor::full({2}, 1.5, DType::f16)), "Tensor f16 [2]\n[1.5, 1.5]");
  EXPECT_EQ(text_of(Tensor::full({}, 1e30, DType::bf16)).substr(0, 15), "Tensor bf16 []\n");
  EXPECT_EQ(text_of(Tensor::from({INFINITY, -INFINITY})), "Tensor f32 [2]\n[inf, -inf]");
}

TEST(Print, ShowsScalarsEmptyAndUndefinedTensors) {
  EXPECT_EQ(text_of(Tensor::full({}, 2.5)), "Tensor f32 []\n2.5");
  EXPECT_EQ(text_of(Tensor::zeros({0})), "Tensor f32 [0]\n[]");
  EXPECT_EQ(text_of(Tensor::zeros({2, 0})), "Tensor f32 [2, 0]\n[[],\n []]");
  EXPECT_EQ(text_of(Tensor::zeros({0, 2})), "Tensor f32 [0, 2]\n[]");
  EXPECT_EQ(text_of(Tensor()), "Tensor undefined");
}

TEST(Print, AbridgesLongAxes) {
  EXPECT_EQ(text_of(Tensor::arange(0, 8)), "Tensor i64 [8]\n[0, 1, 2, 3, 4, 5, 6, 7]");
  EXPECT_EQ(text_of(Tensor::arange(0, 9)), "Tensor i64 [9]\n[0, 1, 2, ..., 6, 7, 8]");
  EXPECT_EQ(text_of(Tensor::arange(0, 1000)), "Tensor i64 [1000]\n[0, 1, 2, ..., 997, 998, 999]");
  EXPECT_EQ(text_of(Tensor::arange(0, 10).reshape({10, 1})),
            "Tensor i64 [10, 1]\n[[0],\n [1],\n [2],\n ...,\n [7],\n [8],\n [9]]");
}

TEST(Print, LeavesTheStreamAsItWas) {
  std::ostringstream out;
  out << std::hex << std::setprecision(2) << std::setw(3) << Tensor::from({10.25f}) << ' ' << 255
      << ' ' << 1.2345;
  EXPECT_EQ(out.str(), "Tensor f32 [1]\n[10.25] ff 1.2");
}

}  // namespace
}  // namespace shoal
