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

}  // namespace
}  // namespace shoal::optim
