#include "shoal/runtime/tensor/tensor.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "shoal/runtime/tensor/ops.h"
#include "shoal/runtime/tensor/random.h"
#include "support/tensors.h"

namespace shoal {
namespace {

using test::refuses;
using test::values_of;

using ElementTypes = testing::Types<float, double, Half, BFloat16, std::int8_t, std::uint8_t,
                                    std::int16_t, std::int32_t, std::int64_t, bool>;

template <class T>
class Elements : public testing::Test {
 protected:
  static constexpr DType dtype = dtype_of<T>;
  // A number as this dtype stores it.
  static T number(double value) { return Tensor::full({}, value, dtype).template item<T>(); }
};
TYPED_TEST_SUITE(Elements, ElementTypes);

TYPED_TEST(Elements, HaveASizeANameAndANumber) {
  EXPECT_EQ(item_size(this->dtype), sizeof(TypeParam));
  EXPECT_NE(to_string(this->dtype), "?");
  EXPECT_EQ(dtype_from_wire(static_cast<std::uint64_t>(this->dtype)), this->dtype);
}

TYPED_TEST(Elements, FillEveryFactory) {
  const Shape shape{2, 3};
  for (const Tensor& made : {Tensor::empty(shape, this->dtype), Tensor::zeros(shape, this->dtype),
                             Tensor::ones(shape, this->dtype), Tensor::full(shape, 1, this->dtype),
                             Tensor::zeros_shared(shape, this->dtype)}) {
    EXPECT_EQ(made.dtype(), this->dtype);
    EXPECT_EQ(made.shape(), shape);
    EXPECT_EQ(made.strides(), (Strides{3, 1}));
    EXPECT_EQ(made.nbytes(), 6 * sizeof(TypeParam));
    EXPECT_TRUE(made.is_contiguous());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.data_ptr()) % 64, 0u);
  }
  const std::vector<TypeParam> zeros(6, this->number(0)), ones(6, this->number(1));
  EXPECT_EQ(values_of<TypeParam>(Tensor::zeros(shape, this->dtype)), zeros);
  EXPECT_EQ(values_of<TypeParam>(Tensor::zeros_shared(shape, this->dtype)), zeros);
  EXPECT_EQ(values_of<TypeParam>(Tensor::ones(shape, this->dtype)), ones);
}

TYPED_TEST(Elements, CountUp) {
  const Tensor counted = Tensor::arange(0, 2, this->dtype);
  EXPECT_EQ(values_of<TypeParam>(counted), (std::vector{this->number(0), this->number(1)}));
}

TYPED_TEST(Elements, AreCopiedFromValues) {
  const std::initializer_list<TypeParam> values{this->number(1), this->number(0), this->number(1)};
  const Tensor row = Tensor::from(values);
  EXPECT_EQ(row.shape(), Shape{3});
  EXPECT_EQ(values_of<TypeParam>(row), std::vector<TypeParam>(values));
  const Tensor column = Tensor::from(std::span(values.begin(), values.size()), {3, 1});
  EXPECT_EQ(column.shape(), (Shape{3, 1}));
  EXPECT_TRUE(equal(column.flatten(), row));
}

TYPED_TEST(Elements, AreFoundAtTheirIndices) {
  const Tensor tensor = Tensor::zeros({2, 3}, this->dtype);
  tensor.template at<TypeParam>(1, 2) = this->number(1);
  EXPECT_EQ(tensor.template span<TypeParam>()[5], this->number(1));
  const Tensor turned = tensor.transpose();
  EXPECT_EQ(turned.template at<TypeParam>(2, 1), this->number(1));
  EXPECT_EQ(turned.select(0, 2).select(0, 1).template item<TypeParam>(), this->number(1));
}

TYPED_TEST(Elements, FillAViewAndNothingElse) {
  const Tensor tensor = Tensor::zeros({3, 4}, this->dtype);
  tensor.slice(1, 1, 4, 2).fill_(1);
  std::vector<TypeParam> wanted(12, this->number(0));
  for (std::size_t i = 1; i < 12; i += 2) wanted[i] = this->number(1);
  EXPECT_EQ(values_of<TypeParam>(tensor), wanted);
  tensor.transpose().zero_();
  EXPECT_TRUE(equal(tensor, Tensor::zeros({3, 4}, this->dtype)));
}

TYPED_TEST(Elements, AreClonedApart) {
  const Tensor tensor = Tensor::ones({2, 3}, this->dtype);
  const Tensor copy = tensor.transpose().clone();
  EXPECT_TRUE(copy.is_contiguous());
  tensor.zero_();
  EXPECT_TRUE(equal(copy, Tensor::ones({3, 2}, this->dtype)));
}

TEST(Tensor, MakesScalarsAndEmptyTensors) {
  EXPECT_EQ(Tensor::full({}, 2.5).item<float>(), 2.5f);
  const Tensor none = Tensor::ones({3, 0, 2}, DType::i64);
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.nbytes(), 0u);
  EXPECT_TRUE(none.span<std::int64_t>().empty());
  EXPECT_TRUE(equal(none.clone(), none));
  EXPECT_EQ(Tensor::from(std::vector<float>{}, {0}).numel(), 0);
}

TEST(Tensor, RefusesImpossibleFactories) {
  EXPECT_TRUE(refuses([] { (void)Tensor::empty({-1}); }, {"negative"}));
  EXPECT_TRUE(refuses([] { (void)Tensor::empty({INT64_MAX}); }, {"too many"}));
  EXPECT_TRUE(refuses([] { (void)Tensor::from(std::vector{1.0f}, {2}); }, {"1 values", "[2]"}));
  EXPECT_TRUE(refuses([] { (void)Tensor::zeros_shared({1, -2}); }, {"negative"}));
}

TEST(Tensor, CountsFromStartToEnd) {
  EXPECT_EQ(values_of<std::int64_t>(Tensor::arange(-2, 3)),
            (std::vector<std::int64_t>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(Tensor::arange(3, 3).numel(), 0);
  EXPECT_EQ(Tensor::arange(3, -3).numel(), 0);
  EXPECT_EQ(Tensor::arange(INT64_MAX - 1, INT64_MAX).item<std::int64_t>(), INT64_MAX - 1);
}

TEST(Tensor, DoesNotOverflowCountingFarApart) {
  EXPECT_EQ(Tensor::arange(INT64_MAX, INT64_MIN).numel(), 0);
  EXPECT_TRUE(refuses([] { (void)Tensor::arange(INT64_MIN, INT64_MAX); }, {"arange"}));
}

TEST(Tensor, ChecksIndicesAndTypes) {
  const Tensor tensor = Tensor::zeros({2, 3});
  EXPECT_TRUE(refuses([&] { (void)tensor.at<float>(0); }, {"1 indices", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.at<float>(0, 3); }, {"index 3", "axis 1", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.at<float>(-1, 0); }, {"index -1"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.at<double>(0, 0); }, {"f32", "f64"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.item<float>(); }, {"item", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)Tensor::zeros({0}).item<float>(); }, {"item", "[0]"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.transpose().span<float>(); }, {"not contiguous"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.span<std::int32_t>(); }, {"i32"}));
  EXPECT_TRUE(refuses([&] { (void)tensor.size(2); }, {"size", "axis 2"}));
  EXPECT_EQ(tensor.size(-1), 3);
  EXPECT_EQ(Tensor::ones({1, 1}).at<float>(0, 0), 1.0f);
  EXPECT_EQ(Tensor::ones({}).at<float>(), 1.0f);
}

TEST(Tensor, CopiesBroadcastAndConvertedIntoAnyTarget) {
  const Tensor base = Tensor::zeros({4, 6}, DType::i16);
  const Tensor target = base.slice(0, 1, 4, 2).slice(1, 0, 6, 3).transpose();  // (2,2)
  EXPECT_EQ(&target.copy_(Tensor::from({1.5f, -2.5f})), &target);
  EXPECT_EQ(values_of<std::int16_t>(target), (std::vector<std::int16_t>{1, -2, 1, -2}));
  EXPECT_EQ(base.at<std::int16_t>(1, 3), 1);
  EXPECT_EQ(base.at<std::int16_t>(3, 0), -2);
  base.copy_(Tensor::full({}, 7, DType::u8));
  EXPECT_TRUE(equal(base, Tensor::full({4, 6}, 7, DType::i16)));
  EXPECT_TRUE(refuses([&] { base.copy_(Tensor::zeros({4})); }, {"[4]", "[4, 6]"}));
  EXPECT_TRUE(refuses([&] { base.select(0, 0).copy_(base); }, {"[4, 6]", "[6]"}));
}

TEST(Tensor, CopiesOntoItselfAsIfFromACopy) {
  const Tensor square = Tensor::arange(0, 16).reshape({4, 4});
  const Tensor turned = square.transpose().clone();
  square.copy_(square.transpose());
  EXPECT_TRUE(equal(square, turned));

  const Tensor rows = Tensor::arange(0, 16).reshape({4, 4});
  const Tensor left = rows.slice(1, 0, 3).clone();
  rows.slice(1, 1, 4).copy_(rows.slice(1, 0, 3));
  EXPECT_TRUE(equal(rows.slice(1, 1, 4), left));

  const Tensor line = Tensor::arange(0, 6);
  line.slice(0, 1, 6).copy_(line.slice(0, 0, 5));
  EXPECT_TRUE(equal(line, Tensor::from<std::int64_t>({0, 0, 1, 2, 3, 4})));
  line.copy_(line.select(0, 5));
  EXPECT_TRUE(equal(line, Tensor::full({6}, 4, DType::i64)));
}

TEST(Equal, ComparesTypeShapeAndElements) {
  const Tensor a = Tensor::arange(0, 6).reshape({2, 3});
  EXPECT_TRUE(equal(a, a.clone()));
  EXPECT_TRUE(equal(a.transpose(), a.transpose().clone()));
  EXPECT_FALSE(equal(a, a.reshape({3, 2})));
  EXPECT_FALSE(equal(a, a.to(DType::i32)));
  EXPECT_FALSE(equal(a, Tensor::zeros({2, 3}, DType::i64)));
  EXPECT_TRUE(equal(Tensor::zeros({0, 2}), Tensor::zeros({0, 2})));
  EXPECT_FALSE(equal(Tensor::zeros({0, 2}), Tensor::zeros({2, 0})));
}

TEST(Equal, TreatsFloatsAsNumbers) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    EXPECT_TRUE(equal(Tensor::full({2}, 0.0, dtype), Tensor::full({2}, -0.0, dtype)));
    EXPECT_FALSE(equal(Tensor::full({}, NAN, dtype), Tensor::full({}, NAN, dtype)));
    EXPECT_TRUE(equal(Tensor::full({}, INFINITY, dtype), Tensor::full({}, INFINITY, dtype)));
  }
}

TEST(UndefinedTensor, IsRefusedRatherThanFollowed) {
  const Tensor none, one = Tensor::ones({1});
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.is_shared());
  EXPECT_EQ(none.numel(), 0);
  const auto undefined = {std::string_view("undefined")};
  EXPECT_TRUE(refuses([&] { (void)none.data_ptr(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.data<float>(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.span<float>(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.device(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.item<float>(); }));
  EXPECT_TRUE(refuses([&] { (void)none.at<float>(); }));
  EXPECT_TRUE(refuses([&] { (void)none.size(0); }));
  EXPECT_TRUE(refuses([&] { (void)none.clone(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.contiguous(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.to(DType::f64); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.to(DType::f32); }, undefined));
  EXPECT_TRUE(refuses([&] { none.copy_(one); }, undefined));
  EXPECT_TRUE(refuses([&] { one.copy_(none); }, undefined));
  EXPECT_TRUE(refuses([&] { Tensor::empty({0}).copy_(none); }, undefined));
  EXPECT_TRUE(refuses([&] { none.fill_(1); }, undefined));
  EXPECT_TRUE(refuses([&] { none.share_memory(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)equal(none, one); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)equal(none, none); }, undefined));
}

TEST(UndefinedTensor, HasNoViews) {
  const Tensor none;
  const auto undefined = {std::string_view("undefined")};
  EXPECT_TRUE(refuses([&] { (void)none.transpose(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.permute({}); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.expand({2}); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.reshape({0}); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.view({0}); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.flatten(); }, undefined));
  EXPECT_TRUE(refuses([&] { (void)none.slice(0, 0, 1); }));
  EXPECT_TRUE(refuses([&] { (void)none.select(0, 0); }));
}

}  // namespace
}  // namespace shoal
