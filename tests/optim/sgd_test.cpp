#include "shoal/optim/sgd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/modules.h"
#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

using autograd::Variable;

TEST(Sgd, RefusesOptionsThatMeanNothing) {
  const Variable w(Tensor::ones({2}), true);
  for (const SgdOptions& bad :
       {SgdOptions{.lr = -1}, SgdOptions{.lr = NAN}, SgdOptions{.momentum = -0.5},
        SgdOptions{.weight_decay = -1}, SgdOptions{.nesterov = true},
        SgdOptions{.momentum = 0.9, .dampening = 0.1, .nesterov = true}})
    EXPECT_THROW(Sgd({w}, bad), Error);
}

TEST(Sgd, LeavesParametersWithoutGradientAlone) {
  const Variable w(Tensor::ones({2}), true);
  Sgd({w}, {.lr = 1}).step();
  EXPECT_TRUE(equal(w.value(), Tensor::ones({2})));
}

TEST(Sgd, StepsAModuleAsItStepsItsParameters) {
  Generator one(4), two(4);
  autograd::Linear flat(3, 2, one), separate(3, 2, two);
  const SgdOptions options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  Sgd fused(flat, options), single(separate.parameters(), options);
  const Variable x(Tensor::arange(0, 6, DType::f32).reshape({2, 3}));
  for (int i = 0; i < 3; ++i) {
    fused.zero_grad();
    single.zero_grad();
    autograd::sum(flat.forward(x)).backward();
    autograd::sum(separate.forward(x)).backward();
    fused.step();
    single.step();
  }
  const auto a = flat.state_dict(), b = separate.state_dict();
  for (const auto& [name, value] : a) EXPECT_TRUE(equal(value, b.at(name))) << name;
}

TEST(Sgd, TakesANewLearningRate) {
  const Variable w(Tensor::zeros({1}), true);
  w.bind(w.value(), Tensor::ones({1}));
  Sgd sgd({w}, {.lr = 1});
  sgd.step();
  sgd.set_lr(0.25);
  sgd.step();
  EXPECT_EQ(w.value().item<float>(), -1.25f);
  EXPECT_THROW(sgd.set_lr(-1), Error);
}

TEST(Sgd, StepsEachGroupItsOwnWay) {
  const Variable a(Tensor::ones({2}), true), b(Tensor::ones({2}), true);
  Sgd sgd({{.parameters = {a}, .options = {.lr = 1}},
           {.parameters = {b}, .options = {.lr = 0.5, .maximize = true}}});
  EXPECT_EQ(sgd.group_count(), 2U);
  for (const Variable& v : {a, b}) autograd::sum(v).backward();
  sgd.step();
  EXPECT_TRUE(equal(a.value(), Tensor::zeros({2})));
  EXPECT_TRUE(equal(b.value(), Tensor::full({2}, 1.5)));
  sgd.set_lr(1, 2);
  EXPECT_EQ(sgd.options(0).lr, 1);
  EXPECT_EQ(sgd.options(1).lr, 2);
  sgd.set_lr(0.25);
  EXPECT_EQ(sgd.options(1).lr, 0.25);
  EXPECT_THROW(sgd.set_lr(2, 1), Error);
}

TEST(Sgd, RefusesGroupsThatMeanNothing) {
  const Variable w(Tensor::ones({2}), true), constant(Tensor::ones({2}));
  EXPECT_THROW(Sgd(std::vector<ParameterGroup>{}), Error);
  EXPECT_THROW(Sgd({{.parameters = {w}, .options = {}}, {.parameters = {w}, .options = {}}}),
               Error);
  EXPECT_THROW(Sgd({constant}, {}), Error);
}

// With velocities of its own each goes its own way; with one they go on where the other stopped.
TEST(Sgd, SharesItsStateWhereToldTo) {
  const Variable w(Tensor::zeros({1}, DType::f64), true);
  const SgdOptions options{.lr = 1, .momentum = 0.5};
  Sgd first({w}, options), second({w}, options);
  second.set_velocities(first.velocities());
  EXPECT_EQ(first.velocities()[0].data_ptr(), second.velocities()[0].data_ptr());
  for (Sgd* sgd : {&first, &second, &first}) {
    sgd->zero_grad();
    autograd::sum(w).backward();
    sgd->step();
  }
  EXPECT_DOUBLE_EQ(w.value().item<double>(), -(1 + 1.5 + 1.75));
  EXPECT_THROW(first.set_velocities({}), Error);
  EXPECT_THROW(first.set_velocities({Tensor::zeros({2}, DType::f64)}), Error);
}

// A step is a change in place like any other, unless it is declared that others may make them.
TEST(Sgd, CountsAsAChangeInPlaceButForHogwild) {
  const Variable w(Tensor::ones({1}), true);
  Sgd sgd({w}, {.lr = 0.5});
  autograd::sum(w).backward();
  const Variable stale = autograd::sum(autograd::square(w));
  sgd.step();
  EXPECT_THROW(stale.backward(), Error);
  sgd.set_hogwild(true);
  const Variable current = autograd::sum(autograd::square(w));
  sgd.step();
  EXPECT_NO_THROW(current.backward());
}

TEST(Sgd, RefusesToStepWhatItMayNotWrite) {
  const Tensor owned = Tensor::ones({2});
  const Variable view(owned.read_only(), true);
  Sgd sgd({view}, {.lr = 1});
  autograd::sum(view).backward();
  EXPECT_THROW(sgd.step(), Error);
  const Variable w(Tensor::ones({2, 2}), true);
  Sgd strided({w}, {.lr = 1});
  w.bind(Tensor::ones({2, 4}).slice(1, 0, 4, 2), {});
  autograd::sum(w).backward();
  EXPECT_THROW(strided.step(), Error);
}

// What another wrote to a gradient by a tensor it kept is a gradient.
TEST(Sgd, StepsWithWhatOthersWroteToTheGradient) {
  Generator generator(1);
  autograd::Linear layer(2, 2, generator);
  const auto flat = layer.flatten();
  const Tensor before = flat.values.clone();
  Sgd sgd(layer, {.lr = 1});
  sgd.zero_grad();
  flat.grads.fill_(1);
  sgd.step();
  EXPECT_FALSE(equal(flat.values, before));
}

TEST(Sgd, LeavesOutWhatIsNotAskedFor) {
  const Variable w(Tensor::full({1}, INFINITY), true);
  Sgd sgd({w}, {.lr = 0.5, .momentum = 0.5});
  autograd::sum(w).backward();
  sgd.step();
  EXPECT_EQ(sgd.velocities()[0].item<float>(), 1);  // not 0 times infinity
  EXPECT_THROW((void)sgd.options(1), Error);
}

}  // namespace
}  // namespace shoal::optim
