#include <gtest/gtest.h>

#include <type_traits>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/modules.h"
#include "shoal/optim/sgd.h"
#include "shoal/runtime/tensor/ops.h"

namespace shoal::autograd {
namespace {

using optim::Sgd;
using optim::SgdOptions;

Variable table() { return Variable(Tensor::arange(0, 12, DType::f64).reshape({4, 3}), true); }

const Tensor& index() {
  static const Tensor instance = Tensor::from<std::int64_t>({2, 0, 2});
  return instance;
}

// A weight for each element, so that gradients differ.
Variable weighted(const Variable& rows) {
  const Tensor weight = Tensor::arange(1, rows.value().numel() + 1, DType::f64);
  return sum(mul(rows, Variable(weight.reshape(rows.shape()))));
}

TEST(SparseGradient, HasTheRowsThatWereTaken) {
  const Variable w = table();
  weighted(embedding(w, index(), true)).backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_TRUE(equal(w.sparse_grad().index(), index()));
  EXPECT_TRUE(equal(w.sparse_grad().rows(), Tensor::arange(1, 10, DType::f64).reshape({3, 3})));
  w.sparse_grad().coalesce();
  EXPECT_TRUE(equal(w.sparse_grad().index(), Tensor::from<std::int64_t>({2, 0})));
  EXPECT_TRUE(
      equal(w.sparse_grad().rows(), Tensor::from<double>({8, 10, 12, 4, 5, 6}).reshape({2, 3})));
  w.zero_grad();
  EXPECT_TRUE(w.sparse_grad().empty());
}

TEST(SparseGradient, OfBagsHasARowForEachInThem) {
  const Tensor bags = Tensor::from<std::int64_t>({0, 1, 1, 3}).reshape({2, 2});
  for (const BagMode mode : {BagMode::sum, BagMode::mean}) {
    const Variable dense = table(), sparse = table();
    weighted(embedding_bag(dense, bags, mode)).backward();
    weighted(embedding_bag(sparse, bags, mode, true)).backward();
    EXPECT_EQ(sparse.sparse_grad().count(), 4);
    const Tensor sum = Tensor::zeros({4, 3}, DType::f64);
    sparse.sparse_grad().add_to(sum, 1);
    EXPECT_TRUE(equal(sum, dense.grad()));
  }
}

// A table in the middle of a graph has a dense gradient, whatever was asked for.
TEST(SparseGradient, IsOfLeavesOnly) {
  const Variable w = table();
  weighted(embedding(neg(w), index(), true)).backward();
  EXPECT_TRUE(w.sparse_grad().empty());
  EXPECT_EQ(w.grad().at<double>(2, 0), -8);
}

Tensor stepped(const SgdOptions& options, bool sparse, int steps) {
  const Variable w = table();
  Sgd sgd({w}, options);
  for (int i = 0; i < steps; ++i) {
    sgd.zero_grad();
    weighted(embedding(w, index(), sparse)).backward();
    sgd.step();
  }
  return w.value();
}

// Rows that every batch has are stepped as with a dense gradient.
TEST(SparseGradient, StepsAsADenseOneDoes) {
  for (const SgdOptions& options :
       {SgdOptions{.lr = 0.5}, SgdOptions{.lr = 0.5, .maximize = true},
        SgdOptions{.lr = 0.5, .momentum = 0.5},
        SgdOptions{.lr = 0.5, .momentum = 0.5, .nesterov = true, .maximize = true}})
    EXPECT_TRUE(equal(stepped(options, true, 3), stepped(options, false, 3)));
}

TEST(SparseGradient, TouchesNoOtherRows) {
  const Variable w = table();
  const double before = w.value().at<double>(1, 1);
  Sgd sgd({w}, {.lr = 0.5, .momentum = 0.9});
  weighted(embedding(w, index(), true)).backward();
  sgd.step();
  // What the velocity of rows that are not in a gradient would do.
  sgd.zero_grad();
  sgd.step();
  const Tensor after = w.value().clone();
  weighted(embedding(w, Tensor::from<std::int64_t>({3}), true)).backward();
  sgd.step();
  EXPECT_EQ(w.value().at<double>(1, 1), before);
  EXPECT_EQ(w.value().at<double>(2, 2), after.at<double>(2, 2));
  EXPECT_NE(w.value().at<double>(3, 0), after.at<double>(3, 0));
  EXPECT_EQ(sgd.velocities()[0].at<double>(1, 1), 0);
}

TEST(SparseGradient, BesideADenseOneIsAddedToIt) {
  const Variable tied = table(), dense = table();
  for (const Variable& w : {tied, dense}) {
    Sgd sgd({w}, {.lr = 0.1, .momentum = 0.9});
    for (int i = 0; i < 2; ++i) {
      sgd.zero_grad();
      const bool sparse = w.id() == tied.id();
      add(weighted(embedding(w, index(), sparse)), sum(square(w))).backward();
      sgd.step();
    }
  }
  EXPECT_TRUE(equal(tied.value(), dense.value()));
}

TEST(SparseGradient, OfAFlatModuleToo) {
  Generator one(3), two(3);
  EmbeddingBag flat(6, 4, one, BagMode::mean, true), loose(6, 4, two, BagMode::mean, true);
  (void)flat.flatten();
  const Variable bags(Tensor::from<std::int64_t>({0, 5, 5, 2}).reshape({2, 2}));
  for (EmbeddingBag* module : {&flat, &loose}) {
    Sgd sgd(module->parameters(), {.lr = 0.1});
    for (int i = 0; i < 2; ++i) {
      sgd.zero_grad();
      sum(square(module->forward(bags))).backward();
      sgd.step();
    }
  }
  EXPECT_TRUE(equal(flat.parameters()[0].value(), loose.parameters()[0].value()));
}

TEST(SparseGradient, RefusesWhatWouldTouchEveryRow) {
  for (const SgdOptions& options :
       {SgdOptions{.weight_decay = 0.1}, SgdOptions{.momentum = 0.9, .dampening = 0.5}})
    expect_error(ErrorKind::unsupported, {"Sgd::step", "weight_decay", "[4, 3]", "sparse"},
                 [&] { stepped(options, true, 1); });
}

TEST(SparseRows, RefusesWhatDoesNotFit) {
  SparseRows rows;
  rows.add(Tensor::from<std::int64_t>({9}), Tensor::ones({1, 2}));
  expect_error(ErrorKind::invalid_argument, {"[1, 3]"}, [&] {
    rows.add(Tensor::from<std::int64_t>({1}), Tensor::ones({1, 3}));
  });
  expect_error(ErrorKind::invalid_argument, {"index 9", "[0, 4)"}, [&] {
    rows.add_to(Tensor::zeros({4, 2}), 1);
  });
  expect_error(ErrorKind::invalid_argument, {"i64"}, [&] {
    rows.add(Tensor::from<float>({1}), Tensor::ones({1, 2}));
  });
  expect_error(ErrorKind::invalid_argument, {"SparseRows::add", "index"},
               [&] { rows.add(Tensor(), Tensor::ones({2})); });
  expect_error(ErrorKind::invalid_argument, {"[1]", "[2, 2]"}, [&] {
    rows.add(Tensor::from<std::int64_t>({1}), Tensor::ones({2, 2}));
  });
  rows.clear();
  rows.add(Tensor::from<std::int64_t>({1}), Tensor::ones({1, 3}));
  EXPECT_EQ(rows.count(), 1);
}

TEST(SparseGradient, OfNothingIsNone) {
  const Variable w = table();
  for (const Variable& rows :
       {embedding(w, Tensor::empty({0}, DType::i64), true),
        embedding_bag(w, Tensor::empty({3, 0}, DType::i64), BagMode::sum, true)})
    EXPECT_NO_THROW(sum(rows).backward());
  const Tensor sum_of_none = Tensor::zeros({4, 3}, DType::f64);
  w.sparse_grad().add_to(sum_of_none, 1);
  EXPECT_TRUE(equal(sum_of_none, Tensor::zeros({4, 3}, DType::f64)));
}

// The velocity of a row goes on when its gradient comes otherwise.
TEST(SparseGradient, LeavesItsVelocityToADenseOne) {
  const Variable mixed = table(), dense = table();
  for (const Variable& w : {mixed, dense}) {
    Sgd sgd({w}, {.lr = 0.5, .momentum = 0.5});
    for (const bool sparse : {true, false}) {
      sgd.zero_grad();
      weighted(embedding(w, index(), sparse && w.id() == mixed.id())).backward();
      sgd.step();
    }
  }
  EXPECT_TRUE(equal(mixed.value(), dense.value()));
}

TEST(SparseGradient, IsNotSteppedTwice) {
  const Variable tied = table(), dense = table();
  for (const Variable& w : {tied, dense}) {
    Sgd sgd({w}, {.lr = 0.5});
    const bool sparse = w.id() == tied.id();
    add(weighted(embedding(w, index(), sparse)), sum(square(w))).backward();
    sgd.step();
    sgd.step();  // the same gradient once more, which is what the caller asked for
  }
  EXPECT_TRUE(equal(tied.value(), dense.value()));
}

TEST(SparseGradient, IsSteppedAlikeWhetherOrNotTheModuleIsLookedAt) {
  Generator one(3), two(3);
  Embedding looked_at(6, 4, one, true), left_alone(6, 4, two, true);
  for (Embedding* module : {&looked_at, &left_alone}) {
    Sgd sgd(*module, {.lr = 0.1, .momentum = 0.9});
    for (const std::int64_t row : {3, 1, 5}) {
      sgd.zero_grad();
      sum(module->forward(Variable(Tensor::from<std::int64_t>({row})))).backward();
      if (module == &looked_at) (void)module->flatten();
      sgd.step();
    }
  }
  EXPECT_TRUE(equal(looked_at.parameters()[0].value(), left_alone.parameters()[0].value()));
}

// A refusal comes before anything has changed, so that the step can be taken again.
TEST(SparseGradient, IsRefusedBeforeOthersAreStepped) {
  const Variable first(Tensor::ones({2}, DType::f64), true), w = table();
  Sgd sgd({{.parameters = {first}, .options = {.lr = 1}},
           {.parameters = {w}, .options = {.weight_decay = 0.1}}});
  add(sum(first), weighted(embedding(w, index(), true))).backward();
  EXPECT_THROW(sgd.step(), Error);
  EXPECT_TRUE(equal(first.value(), Tensor::ones({2}, DType::f64)));
}

TEST(SparseGradient, StepOfHogwildIsNoChangeInPlace) {
  const Variable w = table();
  for (const double momentum : {0.0, 0.9}) {
    Sgd sgd({w}, {.lr = 0.5, .momentum = momentum});
    sgd.set_hogwild(true);
    weighted(embedding(w, index(), true)).backward();
    const Variable pending = sum(square(w));
    sgd.step();
    EXPECT_NO_THROW(pending.backward());
    w.zero_grad();
  }
}

static_assert(!std::is_copy_constructible_v<SparseRows>, "a copy would share what is written to");

}  // namespace
}  // namespace shoal::autograd
