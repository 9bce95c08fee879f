#include <gtest/gtest.h>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/record.h"

namespace shoal::autograd {
namespace {

constexpr int kDeep = 200'000;

Variable leaf(double value) { return Variable(Tensor::full({}, value, DType::f64), true); }

double grad_of(const Variable& x) { return x.grad().item<double>(); }

Variable chain(const Variable& start, const Variable& step) {
  Variable y = start;
  for (int i = 0; i < kDeep; ++i) y = add(y, step);
  return y;
}

TEST(Engine, ChainsRules) {
  const Variable x = leaf(3), w = leaf(-2);
  mul(mul(x, w), w).backward();  // x w^2
  EXPECT_EQ(grad_of(x), 4);
  EXPECT_EQ(grad_of(w), -12);
}

TEST(Engine, SumsOverTheArmsOfADiamond) {
  const Variable x = leaf(2);
  const Variable top = mul(x, x);
  const Variable left = mul(top, leaf(3)), right = mul(top, top);
  add(left, right).backward();  // 3 x^2 + x^4
  EXPECT_EQ(grad_of(x), 6 * 2 + 4 * 8);
}

TEST(Engine, VisitsEachNodeOnceAfterAllItsUses) {
  const Variable x = leaf(1);
  int calls = 0;
  Variable y = record("counted", x.value(), {x}, [&](const Tensor& dy) {
    ++calls;
    return Grads{dy};
  });
  const Variable first = y;
  // Paths through this graph double at every step, its nodes do not.
  for (int i = 0; i < 40; ++i) y = add(y, y);
  add(y, first).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(grad_of(x), static_cast<double>(std::int64_t{1} << 40) + 1);
}

TEST(Engine, CountsAVariableUsedTwiceTwice) {
  const Variable x(Tensor::ones({3}, DType::f64), true);
  const Tensor dy = Tensor::from<double>({1, 2, 3});
  add(x, x).backward(dy);
  EXPECT_TRUE(equal(x.grad(), Tensor::from<double>({2, 4, 6})));
  EXPECT_TRUE(equal(dy, Tensor::from<double>({1, 2, 3})));
}

TEST(Engine, KeepsGradientsApartThatARuleGaveTwice) {
  const Variable a(Tensor::ones({2}), true), b(Tensor::ones({2}), true);
  add(a, b).backward(Tensor::ones({2}));
  EXPECT_NE(a.grad().data<float>(), b.grad().data<float>());
  a.zero_grad();
  EXPECT_TRUE(equal(b.grad(), Tensor::ones({2})));
}

TEST(Engine, NeverKeepsTheCallersGradient) {
  const Variable x(Tensor::ones({2}), true);
  const Tensor dy = Tensor::ones({2});
  reshape(x, {2}).backward(dy);
  x.backward(dy);
  EXPECT_TRUE(equal(x.grad(), Tensor::full({2}, 2)));
  EXPECT_TRUE(equal(dy, Tensor::ones({2})));
}

TEST(Engine, AccumulatesInPlaceOverCalls) {
  const Variable x = leaf(5);
  mul(x, leaf(2)).backward();
  const double* place = x.grad().data<double>();
  mul(x, leaf(3)).backward();
  EXPECT_EQ(grad_of(x), 5);
  EXPECT_EQ(x.grad().data<double>(), place);
  x.zero_grad();
  EXPECT_EQ(grad_of(x), 0);
  EXPECT_EQ(x.grad().data<double>(), place);
}

TEST(Engine, GivesLeavesContiguousGradientsOfTheirOwn) {
  const Variable x(Tensor::ones({2, 3}), true), view(Tensor::ones({3, 2}).transpose(), true);
  sum(x).backward();
  mean(view).backward();
  for (const Variable& each : {x, view}) {
    EXPECT_TRUE(each.grad().is_contiguous());
    EXPECT_EQ(each.grad().storage()->nbytes(), each.grad().nbytes());
  }
}

TEST(Engine, ComputesNothingForInputsThatNeedNoGradient) {
  const Variable x = leaf(2), data(Tensor::full({}, 7, DType::f64));
  EXPECT_FALSE(mul(data, data).requires_grad());
  mul(x, data).backward();
  EXPECT_EQ(grad_of(x), 7);
  EXPECT_FALSE(data.grad().defined());
}

TEST(Engine, KeepsNoGradientOfWhatWasComputed) {
  const Variable x = leaf(2);
  const Variable y = mul(x, x);
  mul(y, y).backward();
  EXPECT_FALSE(y.grad().defined());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_TRUE(y.requires_grad());
}

TEST(Engine, ReleasesGradientsOnceUsed) {
  const Variable x(Tensor::ones({4}), true);
  std::weak_ptr<Storage> upper;
  const Variable low = record("low", x.value(), {x}, [&](const Tensor& dy) {
    EXPECT_TRUE(upper.expired()) << "a gradient further up is still held";
    return Grads{dy};
  });
  const Variable middle = record("middle", x.value(), {low}, [&](const Tensor& dy) {
    upper = dy.storage();
    return Grads{dy.clone()};
  });
  record("top", x.value(), {middle}, [](const Tensor& dy) {
    return Grads{dy.clone()};
  }).backward(Tensor::ones({4}));
  EXPECT_TRUE(x.grad().defined());
}

TEST(Engine, ReleasesTheGraphAsItGoes) {
  const Variable x = leaf(1);
  const auto witness = std::make_shared<int>();
  const Variable y =
      record("kept", x.value(), {x}, [witness](const Tensor& dy) { return Grads{dy}; });
  EXPECT_EQ(witness.use_count(), 2);
  y.backward();
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(Engine, RecordsNothingInANoGradScope) {
  const Variable x = leaf(2);
  {
    const NoGradScope outer;
    {
      const NoGradScope inner;
      EXPECT_FALSE(grad_enabled());
    }
    EXPECT_FALSE(grad_enabled());
    const Variable y = mul(x, x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(y.is_leaf());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(mul(x, x).requires_grad());
}

TEST(Engine, DetachCutsTheGraphAndSharesTheValue) {
  const Variable x = leaf(3);
  const Variable y = mul(x, x);
  const Variable cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_EQ(cut.value().data<double>(), y.value().data<double>());
  mul(cut, x).backward();
  EXPECT_EQ(grad_of(x), 9);
}

TEST(Engine, GoesDownADeepChain) {
  const Variable x = leaf(1), step = leaf(1);
  chain(x, step).backward();
  EXPECT_EQ(grad_of(x), 1);
  EXPECT_EQ(grad_of(step), kDeep);
}

TEST(Engine, ForgetsADeepChainThatWasNeverUsed) {
  const auto witness = std::make_shared<int>();
  const Variable x = leaf(1);
  Variable y = record("kept", x.value(), {x}, [witness](const Tensor& dy) { return Grads{dy}; });
  y = chain(y, x);
  EXPECT_EQ(witness.use_count(), 2);
  y = {};
  EXPECT_EQ(witness.use_count(), 1);
}

}  // namespace
}  // namespace shoal::autograd
