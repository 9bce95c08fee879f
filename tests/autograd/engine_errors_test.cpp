#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/autograd/record.h"

namespace shoal::autograd {
namespace {

constexpr ErrorKind kMisuse = ErrorKind::invalid_argument;

Variable ones(const Shape& shape) { return Variable(Tensor::ones(shape), true); }

TEST(EngineErrors, GraphIsUsedUpByTheFirstBackward) {
  const Variable x = ones({2, 2});
  const Variable y = matmul(x, x);
  const Variable loss = sum(y);
  loss.backward();
  expect_error(kMisuse, {"backward", "sum", "used up"}, [&] { loss.backward(); });
  const Tensor before = x.grad().clone();
  // Found before anything has happened, though 'matmul' is the lower of the two.
  expect_error(kMisuse, {"matmul", "[2, 2]", "used up"}, [&] { sum(add(x, y)).backward(); });
  EXPECT_TRUE(equal(x.grad(), before));
}

TEST(EngineErrors, ManyNumbersNeedAGradient) {
  expect_error(kMisuse, {"backward", "relu", "[3]"}, [] { relu(ones({3})).backward(); });
  EXPECT_NO_THROW(relu(ones({1, 1})).backward());
}

TEST(EngineErrors, GradientMustFitInShapeAndDtype) {
  const Variable y = relu(ones({3}));
  expect_error(kMisuse, {"relu", "f32 [1, 3]", "f32 [3]"}, [&] {
    y.backward(Tensor::ones({1, 3}));
  });
  expect_error(kMisuse, {"relu", "f64 [3]", "f32 [3]"},
               [&] { y.backward(Tensor::ones({3}, DType::f64)); });
  EXPECT_NO_THROW(y.backward(Tensor::ones({3})));
}

TEST(EngineErrors, SomethingMustNeedAGradient) {
  const Variable data(Tensor::ones({}));
  expect_error(kMisuse, {"backward", "leaf", "needs no gradient"}, [&] { data.backward(); });
  expect_error(kMisuse, {"mul", "needs no gradient"}, [&] { mul(data, data).backward(); });
  expect_error(kMisuse, {"backward", "undefined"}, [] { Variable().backward(); });
}

TEST(EngineErrors, RulesMustGiveWhatTheirInputsNeed) {
  const Variable x = ones({2});
  const auto run = [&x](Grads grads) {
    record("mine", x.value(), {x}, [grads](const Tensor&) {
      return grads;
    }).backward(Tensor::ones({2}));
  };
  expect_error(kMisuse, {"mine", "1 inputs", "0 gradients"}, [&] { run({}); });
  expect_error(kMisuse, {"mine", "no gradient", "[2]"}, [&] { run({Tensor()}); });
  expect_error(kMisuse, {"mine", "[3]", "[2]"}, [&] { run({Tensor::ones({3})}); });
  expect_error(kMisuse, {"mine", "f64", "f32"}, [&] { run({Tensor::ones({2}, DType::f64)}); });
  EXPECT_FALSE(x.grad().defined());
}

TEST(EngineErrors, LeavesKeepWhatArrivedBeforeARuleThrew) {
  const Variable near = ones({}), far = ones({});
  const auto witness = std::make_shared<int>();
  const Variable bad = record("bad", far.value(), {far}, [witness](const Tensor&) -> Grads {
    throw std::runtime_error("from the rule");
  });
  const Variable y = add(near, relu(bad));
  EXPECT_THROW(y.backward(), std::runtime_error);
  EXPECT_TRUE(equal(near.grad(), Tensor::ones({})));
  EXPECT_FALSE(far.grad().defined());
  EXPECT_EQ(witness.use_count(), 1);
  expect_error(kMisuse, {"add", "used up"}, [&] { y.backward(); });
  relu(far).backward();
  EXPECT_TRUE(equal(far.grad(), Tensor::ones({})));
}

TEST(EngineErrors, IntegersHaveNoGradient) {
  expect_error(kMisuse, {"Variable", "i64", "[2]"},
               [] { Variable(Tensor::zeros({2}, DType::i64), true); });
  expect_error(kMisuse, {"Variable", "undefined"}, [] { Variable(Tensor(), true); });
}

TEST(EngineErrors, UndefinedVariablesHaveNoValue) {
  const Variable none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.requires_grad());
  expect_error(kMisuse, {"undefined"}, [&] { static_cast<void>(none.value()); });
  expect_error(kMisuse, {"undefined"}, [&] { static_cast<void>(none.grad()); });
  expect_error(kMisuse, {"undefined"}, [&] { static_cast<void>(add(none, ones({}))); });
}

TEST(EngineErrors, BindingKeepsShapeDtypeAndLeafness) {
  const Variable x = ones({2});
  expect_error(kMisuse, {"bind", "[3]", "[2]"}, [&] { x.bind(Tensor::ones({3}), {}); });
  expect_error(kMisuse, {"bind", "f64", "f32"},
               [&] { x.bind(Tensor::ones({2}), Tensor::ones({2}, DType::f64)); });
  expect_error(kMisuse, {"bind", "not contiguous"}, [&] {
    x.bind(Tensor::ones({2}), Tensor::ones({2, 2}).select(1, 0));
  });
  expect_error(kMisuse, {"bind", "relu"}, [&] { relu(x).bind(Tensor::ones({2}), {}); });
  EXPECT_TRUE(equal(x.value(), Tensor::ones({2})));
}

TEST(FunctionErrors, NameTheFunctionAndWhatItWasGiven) {
  const Variable x = ones({2, 3}), other(Tensor::ones({2, 3}, DType::f64));
  expect_error(kMisuse, {"add", "f32", "f64"}, [&] { static_cast<void>(add(x, other)); });
  expect_error(kMisuse, {"mul", "[2, 3]", "[2]"}, [&] { static_cast<void>(mul(x, ones({2}))); });
  expect_error(kMisuse, {"matmul", "[2, 3]"}, [&] { static_cast<void>(matmul(x, x)); });
  expect_error(kMisuse, {"linear", "[2, 3]", "[4, 5]"}, [&] {
    static_cast<void>(linear(x, ones({4, 5}), {}));
  });
  expect_error(kMisuse, {"mse_loss", "[2, 3]", "[3]"},
               [&] { static_cast<void>(mse_loss(x, ones({3}))); });
}

TEST(FunctionErrors, CrossEntropyNamesRowAndTarget) {
  const Variable logits = ones({2, 3});
  const auto run = [&](const Tensor& targets) {
    static_cast<void>(cross_entropy(logits, targets));
  };
  expect_error(kMisuse, {"cross_entropy", "3", "row 1"}, [&] {
    run(Tensor::from<std::int64_t>({0, 3}));
  });
  expect_error(kMisuse, {"cross_entropy", "-1", "row 0"}, [&] {
    run(Tensor::from<std::int64_t>({-1, 0}));
  });
  expect_error(kMisuse, {"cross_entropy", "f32 [2]"}, [&] { run(Tensor::ones({2})); });
  expect_error(kMisuse, {"cross_entropy", "i64 [1]"},
               [&] { run(Tensor::from<std::int64_t>({0})); });
  expect_error(kMisuse, {"cross_entropy", "undefined"}, [&] { run({}); });
}

}  // namespace
}  // namespace shoal::autograd
