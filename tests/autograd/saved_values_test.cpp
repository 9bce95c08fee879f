#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/autograd/record.h"
#include "shoal/runtime/tensor/ops.h"

// Graphs that are kept, and values that change under them.
namespace shoal::autograd {
namespace {

constexpr ErrorKind kMisuse = ErrorKind::invalid_argument;

Variable leaf() { return Variable(Tensor::from<double>({1, 2, 3}), true); }

TEST(RetainedGraph, GivesTheSameGradientAgain) {
  const Variable x = leaf();
  const Variable y = sum(mul(square(x), x));  // in integers: no sum is rounded
  y.backward({}, true);
  const Tensor once = x.grad().clone();
  y.backward({}, true);
  EXPECT_TRUE(equal(x.grad(), ops::scale(once, 2)));
  y.backward();
  EXPECT_TRUE(equal(x.grad(), ops::add(ops::scale(once, 2), once)));
  expect_error(kMisuse, {"backward", "'sum'", "used up", "retain"}, [&] { y.backward(); });
}

TEST(RetainedGraph, MayBeSharedByTwoRoots) {
  const Variable x = leaf();
  const Variable common = square(x);
  const Variable first = sum(common), second = sum(neg(common));
  first.backward({}, true);
  second.backward();
  EXPECT_TRUE(equal(x.grad(), Tensor::zeros({3}, DType::f64)));
}

TEST(ChangeInPlace, OfWhatBackwardNeedsIsRefused) {
  const Variable x = leaf();
  const Variable y = sum(mul(x, x));
  x.value().fill_(7);
  expect_error(kMisuse, {"'mul'", "[3]", "changed in place"}, [&] { y.backward(); });

  const Variable z = sum(exp(x));
  ops::axpy(x.value(), 1, x.value());  // exp keeps its result, not x
  EXPECT_NO_THROW(z.backward());

  const Tensor index = Tensor::from<std::int64_t>({0, 1});
  const Variable table(Tensor::ones({2, 2}), true);
  const Variable rows = sum(embedding(table, index));
  index.fill_(0);
  expect_error(kMisuse, {"'embedding'", "changed in place"}, [&] { rows.backward(); });
}

TEST(ChangeInPlace, IsSeenThroughOtherViews) {
  const Variable x(Tensor::ones({2, 2}, DType::f64), true);
  const Variable y = sum(square(x));
  x.value().select(0, 1).zero_();
  EXPECT_THROW(y.backward(), Error);
}

TEST(ChangeInPlace, OfWhatNobodyNeedsIsAllowed) {
  const Variable x = leaf(), c(Tensor::from<double>({4, 5, 6}));
  const Variable y = sum(add(mul(x, c), x));  // needs c alone, since c takes no gradient
  x.value().zero_();
  y.backward();
  EXPECT_TRUE(equal(x.grad(), Tensor::from<double>({5, 6, 7})));
}

// A graph that failed half way does not spoil the next.
TEST(ChangeInPlace, LeavesTheRestOfTheGraphUsable) {
  const Variable x = leaf(), spoiled = leaf();
  const Variable common = square(x);
  const Variable bad = add(sum(common), sum(mul(spoiled, spoiled)));
  spoiled.value().zero_();
  EXPECT_THROW(bad.backward({}, true), Error);
  const Tensor before = x.grad().defined() ? x.grad().clone() : Tensor::zeros({3}, DType::f64);
  sum(common).backward();
  EXPECT_TRUE(equal(ops::sub(x.grad(), before), Tensor::from<double>({2, 4, 6})));
}

TEST(GradientsInPlace, AddUpOverStepsAndStartAgainFromZero) {
  const Variable x(Tensor::ones({2, 3}), true), w(Tensor::ones({4, 3}), true),
      b(Tensor::zeros({4}), true);
  const auto step = [&] { sum(linear(x, w, b)).backward(); };
  step();
  step();
  EXPECT_TRUE(equal(w.grad(), Tensor::full({4, 3}, 4)));
  EXPECT_TRUE(equal(b.grad(), Tensor::full({4}, 4)));
  for (const Variable& v : {w, b}) v.zero_grad();
  EXPECT_FALSE(w.has_grad());
  EXPECT_TRUE(equal(w.grad(), Tensor::zeros({4, 3})));
  w.grad().fill_(10);  // who has seen the zeros may write
  step();
  EXPECT_TRUE(equal(w.grad(), Tensor::full({4, 3}, 12)));
  EXPECT_TRUE(equal(b.grad(), Tensor::full({4}, 2)));
}

TEST(GradientsInPlace, OfOneLeafInSeveralPlaces) {
  const Variable w(Tensor::ones({3, 3}, DType::f64), true);
  w.bind(w.value(), Tensor::zeros({3, 3}, DType::f64));
  w.zero_grad();
  const Variable x(Tensor::full({2, 3}, 2, DType::f64));
  sum(linear(linear(x, w, {}), w, {})).backward();
  // d/dw of sum(x w^T w^T): each use gives 36.
  const Tensor tied = w.grad().clone();
  const Variable first(w.value().clone(), true), second(w.value().clone(), true);
  sum(linear(linear(x, first, {}), second, {})).backward();
  EXPECT_TRUE(equal(tied, ops::add(first.grad(), second.grad())));
  sum(matmul(w, w)).backward();
  EXPECT_TRUE(equal(ops::sub(w.grad(), tied), Tensor::full({3, 3}, 6, DType::f64)));
}

TEST(ChangeInPlace, OfTargetsIsRefused) {
  const Variable logits(Tensor::zeros({2, 3}), true);
  const Tensor targets = Tensor::zeros({2}, DType::i64), signs = Tensor::ones({2, 3});
  const Variable smooth = cross_entropy(logits, targets, {.label_smoothing = 0.1});
  const Variable plain = cross_entropy(logits, targets);
  const Variable nll = nll_loss(log_softmax(logits), targets);
  const Variable hinge = hinge_loss(logits, signs);
  targets.fill_(2e9);
  signs.fill_(0);
  expect_error(kMisuse, {"'cross_entropy'", "changed in place"}, [&] { smooth.backward(); });
  expect_error(kMisuse, {"'nll_loss'", "changed in place"}, [&] { nll.backward(); });
  expect_error(kMisuse, {"'hinge_loss'", "changed in place"}, [&] { hinge.backward(); });
  plain.backward();  // has what it needs
  EXPECT_NEAR(logits.grad().at<float>(0, 0), (1 / 3.0 - 1) / 2, 1e-6);
}

TEST(GradientsInPlace, MayBeTheGradientThatIsSent) {
  const Variable w(Tensor::ones({2}, DType::f64), true);
  w.backward(Tensor::ones({2}, DType::f64));
  w.backward(w.grad());
  EXPECT_TRUE(equal(w.grad(), Tensor::full({2}, 2, DType::f64)));
  add(w, w).backward(w.grad());
  EXPECT_TRUE(equal(w.grad(), Tensor::full({2}, 6, DType::f64)));
}

TEST(Undefined, OperandsAreRefused) {
  const Variable table(Tensor::ones({2, 2}), true);
  expect_error(kMisuse, {"undefined"}, [&] { (void)embedding(table, Tensor()); });
  expect_error(kMisuse, {"embedding_bag"}, [&] { (void)embedding_bag(table, Tensor()); });
  expect_error(kMisuse, {"mine", "undefined"}, [] { const Saved saved("mine", Tensor()); });
  expect_error(kMisuse, {"nothing was saved"}, [] { (void)Saved().get(); });
  expect_error(kMisuse, {"'mine'", "no rule"},
               [&] { (void)record("mine", table.value(), {table}, Rule()); });
}

}  // namespace
}  // namespace shoal::autograd
