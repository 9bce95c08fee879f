#include "shoal/runtime/tensor/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "shoal/runtime/tensor/random.h"
#include "support/tensors.h"

namespace shoal {
namespace {

using test::element;
using test::for_each_index;
using test::Index;
using test::refuses;
using test::values_of;

// Against loops over indices, for each dtype that has arithmetic.
template <class T>
class Ops : public testing::Test {
 protected:
  static constexpr DType dtype = dtype_of<T>;

  Tensor random(const Shape& shape) { return Tensor::uniform(shape, -2, 2, generator_, dtype); }

  // The element of `tensor` that broadcasting shows at `index`.
  static T broadcast(const Tensor& tensor, Index index) {
    index.erase(index.begin(), index.end() - tensor.rank());
    for (int axis = 0; axis < tensor.rank(); ++axis)
      if (tensor.shape()[axis] == 1) index[static_cast<std::size_t>(axis)] = 0;
    return element<T>(tensor, index);
  }

  template <class F>
  static void expect_elementwise(const Tensor& y, const Tensor& a, const Tensor& b, F&& f) {
    EXPECT_EQ(y.shape(), broadcast_shapes(a.shape(), b.shape(), "test"));
    EXPECT_TRUE(y.is_contiguous());
    for_each_index(y.shape(), [&](const Index& index) {
      ASSERT_EQ(element<T>(y, index), f(broadcast(a, index), broadcast(b, index)));
    });
  }

  Generator generator_{11};
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Ops, Floats);

TYPED_TEST(Ops, BroadcastBinaryOperands) {
  using T = TypeParam;
  const Tensor turned = this->random({3, 2}).transpose();
  const Tensor sliced = this->random({4, 7}).slice(0, 0, 4, 2).slice(1, 1, 7, 2);
  const std::pair<Tensor, Tensor> pairs[] = {
      {this->random({2, 3}), this->random({2, 3})}, {turned, sliced},
      {this->random({}), this->random({2, 3})},     {this->random({4, 1, 3}), turned},
      {this->random({2, 1}), this->random({1, 3})}, {this->random({0, 3}), this->random({3})},
      {this->random({1}), this->random({0})},       {this->random({}), this->random({})}};
  for (const auto& [a, b] : pairs) {
    this->expect_elementwise(ops::add(a, b), a, b, [](T x, T y) { return x + y; });
    this->expect_elementwise(ops::sub(b, a), b, a, [](T x, T y) { return x - y; });
    this->expect_elementwise(ops::mul(a, b), a, b, [](T x, T y) { return x * y; });
    this->expect_elementwise(ops::relu_backward(a, b), a, b,
                             [](T dy, T y) { return y > 0 ? dy : 0; });
  }
}

TYPED_TEST(Ops, GoOverEveryElement) {
  using T = TypeParam;
  for (const Tensor& x : {this->random({3, 5}).transpose(), this->random({0}), this->random({})}) {
    const Tensor none = Tensor::zeros({}, this->dtype);
    this->expect_elementwise(ops::neg(x), x, none, [](T v, T) { return -v; });
    this->expect_elementwise(ops::relu(x), x, none, [](T v, T) { return v > 0 ? v : 0; });
    this->expect_elementwise(ops::scale(x, 0.5), x, none, [](T v, T) { return v / 2; });
    for_each_index(x.shape(), [&](const Index& i) {
      EXPECT_NEAR(element<T>(ops::exp(x), i), std::exp(element<T>(x, i)), 1e-5);
    });
  }
}

TYPED_TEST(Ops, KeepNaNThroughReluAndExp) {
  const Tensor x = Tensor::full({9}, NAN, this->dtype);
  for (const Tensor& y : {ops::relu(x), ops::exp(x), ops::neg(x)})
    for (const TypeParam value : y.template span<TypeParam>()) EXPECT_TRUE(std::isnan(value));
}

TYPED_TEST(Ops, AddInPlaceAndBroadcast) {
  const Tensor y = Tensor::ones({2, 3}, this->dtype);
  ops::axpy(y, 2, Tensor::arange(0, 3, this->dtype));
  EXPECT_EQ(values_of<TypeParam>(y), (std::vector<TypeParam>{1, 3, 5, 1, 3, 5}));
  ops::axpy(y, -1, y);
  EXPECT_TRUE(equal(y, Tensor::zeros({2, 3}, this->dtype)));
}

TYPED_TEST(Ops, AddInPlaceFromAnOverlappingView) {
  const Tensor line = Tensor::ones({101}, this->dtype);
  ops::axpy(line.slice(0, 1, 101), 1, line.slice(0, 0, 100));
  EXPECT_TRUE(equal(line.slice(0, 1, 101), Tensor::full({100}, 2, this->dtype)));
}

TEST(OpsErrors, NameTheOpAndBothShapes) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({2, 4});
  EXPECT_TRUE(refuses([&] { (void)ops::add(a, b); }, {"add", "[2, 3]", "[2, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::sub(a, b); }, {"sub", "[2, 3]", "[2, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::mul(a, b); }, {"mul", "[2, 3]", "[2, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::relu_backward(a, b); }, {"relu_backward", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::matmul(a, b); }, {"matmul", "[2, 3]", "[2, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::matmul(a, b.select(0, 0)); }, {"matmul", "[4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::linear(a, b, {}); }, {"linear", "[2, 3]", "[2, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::linear(a, a, b); }, {"linear", "[2, 4]", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::log_softmax_backward(a, b); }, {"[2, 3]", "[2, 4]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::log_softmax(Tensor::zeros({})); }, {"log_softmax"}));
  EXPECT_TRUE(refuses([&] { (void)ops::argmax(Tensor::zeros({2, 0})); }, {"argmax", "[2, 0]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::sum(a, 2); }, {"sum", "axis 2"}));
  EXPECT_TRUE(refuses([&] { (void)ops::sum_to(a, {4}); }, {"sum_to", "[2, 3]", "[4]"}));
  EXPECT_TRUE(refuses([&] { ops::axpy(a.transpose(), 1, a.transpose()); }, {"axpy"}));
}

TEST(OpsErrors, NameTheOpThatCannotBroadcastInPlace) {
  const Tensor a = Tensor::zeros({2, 3});
  EXPECT_TRUE(refuses([&] { ops::axpy(a, 1, Tensor::zeros({2})); }, {"axpy", "[2]", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { ops::axpy(Tensor::zeros({3}), 1, a); }, {"axpy", "[2, 3]", "[3]"}));
  EXPECT_TRUE(refuses([&] { a.copy_(Tensor::zeros({2})); }, {"copy_", "[2]", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { a.copy_(Tensor::zeros({1, 2, 3})); }, {"copy_", "[1, 2, 3]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::sum_to(a, {1, 1, 1}); }, {"sum_to", "[1, 1, 1]"}));
  EXPECT_TRUE(refuses([&] { (void)ops::sum_to(a, {2, 3, 1}); }, {"sum_to", "[2, 3, 1]"}));
}

TEST(OpsErrors, NameTheOpThatHasNoSuchArithmetic) {
  const Tensor i = Tensor::zeros({2, 2}, DType::i32), at = Tensor::zeros({2}, DType::i64);
  const auto unsupported = [](auto&& op, std::string_view name) {
    return refuses(op, {name, "i32", "to(DType::f32)"}, ErrorKind::unsupported);
  };
  EXPECT_TRUE(unsupported([&] { (void)ops::add(i, i); }, "add"));
  EXPECT_TRUE(unsupported([&] { (void)ops::neg(i); }, "neg"));
  EXPECT_TRUE(unsupported([&] { (void)ops::exp(i); }, "exp"));
  EXPECT_TRUE(unsupported([&] { (void)ops::relu(i); }, "relu"));
  EXPECT_TRUE(unsupported([&] { (void)ops::scale(i, 2); }, "scale"));
  EXPECT_TRUE(unsupported([&] { (void)ops::matmul(i, i); }, "matmul"));
  EXPECT_TRUE(unsupported([&] { (void)ops::linear(i, i, {}); }, "linear"));
  EXPECT_TRUE(unsupported([&] { (void)ops::sum(i); }, "sum"));
  EXPECT_TRUE(unsupported([&] { (void)ops::sum(i, 0); }, "sum"));
  EXPECT_TRUE(unsupported([&] { (void)ops::sum_to(i, {2}); }, "sum_to"));
  EXPECT_TRUE(unsupported([&] { (void)ops::mean(i); }, "mean"));
  EXPECT_TRUE(unsupported([&] { (void)ops::log_softmax(i); }, "log_softmax"));
  EXPECT_TRUE(unsupported([&] { (void)ops::argmax(i); }, "argmax"));
  EXPECT_TRUE(unsupported([&] { (void)ops::take(i, at); }, "take"));
  EXPECT_TRUE(unsupported([&] { ops::add_at(i, at, 1); }, "add_at"));
  EXPECT_TRUE(unsupported([&] { ops::axpy(i, 1, i); }, "axpy"));
}

TEST(OpsErrors, RefuseMixedDtypes) {
  const Tensor f = Tensor::zeros({2}), d = Tensor::zeros({2}, DType::f64);
  EXPECT_TRUE(refuses([&] { (void)ops::add(f, d); }, {"add", "f32", "f64"}));
  EXPECT_TRUE(refuses([&] { ops::axpy(f, 1, d); }, {"axpy", "f32", "f64"}));
}

TEST(OpsErrors, RefuseUndefinedOperands) {
  const Tensor none, a = Tensor::zeros({2, 2}), at = Tensor::zeros({2}, DType::i64);
  const auto undefined = [](auto&& op, std::string_view name) {
    return refuses(op, {name, "undefined"});
  };
  EXPECT_TRUE(undefined([&] { (void)ops::add(none, a); }, "add"));
  EXPECT_TRUE(undefined([&] { (void)ops::sub(a, none); }, "sub"));
  EXPECT_TRUE(undefined([&] { (void)ops::mul(none, none); }, "mul"));
  EXPECT_TRUE(undefined([&] { (void)ops::relu_backward(none, a); }, "relu_backward"));
  EXPECT_TRUE(undefined([&] { (void)ops::neg(none); }, "neg"));
  EXPECT_TRUE(undefined([&] { (void)ops::exp(none); }, "exp"));
  EXPECT_TRUE(undefined([&] { (void)ops::relu(none); }, "relu"));
  EXPECT_TRUE(undefined([&] { (void)ops::scale(none, 1); }, "scale"));
  EXPECT_TRUE(undefined([&] { (void)ops::matmul(none, a); }, "matmul"));
  EXPECT_TRUE(undefined([&] { (void)ops::linear(none, a, a); }, "linear"));
  EXPECT_TRUE(undefined([&] { (void)ops::sum(none); }, "sum"));
  EXPECT_TRUE(undefined([&] { (void)ops::sum(none, 0); }, "sum"));
  EXPECT_TRUE(undefined([&] { (void)ops::sum_to(none, {}); }, "sum_to"));
  EXPECT_TRUE(undefined([&] { (void)ops::mean(none); }, "mean"));
  EXPECT_TRUE(undefined([&] { (void)ops::log_softmax(none); }, "log_softmax"));
  EXPECT_TRUE(undefined([&] { (void)ops::log_softmax_backward(a, none); }, "log_softmax_back"));
  EXPECT_TRUE(undefined([&] { (void)ops::argmax(none); }, "argmax"));
  EXPECT_TRUE(undefined([&] { (void)ops::take(none, at); }, "take"));
  EXPECT_TRUE(undefined([&] { (void)ops::take(a, none); }, "take"));
  EXPECT_TRUE(undefined([&] { ops::add_at(none, at, 1); }, "add_at"));
  EXPECT_TRUE(undefined([&] { ops::axpy(none, 1, a); }, "axpy"));
}

}  // namespace
}  // namespace shoal
