#include "shoal/autograd/modules.h"

#include <gtest/gtest.h>

#include <sstream>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"

namespace shoal::autograd {
namespace {

constexpr ErrorKind kMisuse = ErrorKind::invalid_argument;

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.named_parameters()) names.push_back(name);
  return names;
}

std::shared_ptr<Sequential> small_model(Generator& generator) {
  return std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{
      std::make_shared<Flatten>(), std::make_shared<Linear>(6, 4, generator),
      std::make_shared<ReLU>(), std::make_shared<Linear>(4, 2, generator)});
}

struct Named : Module {
  using Module::register_module;
  using Module::register_parameter;
  Variable forward(const Variable& x) override { return x; }
};

TEST(Linear, StartsUniformWithinOneOverTheRootOfItsInputs) {
  Generator generator(7);
  const Linear layer(100, 50, generator);
  for (const auto& [name, value] : layer.state_dict()) {
    float least = 1, most = -1;
    for (const float x : value.span<float>()) {
      least = std::min(least, x);
      most = std::max(most, x);
    }
    EXPECT_GE(least, -0.1F) << name;
    EXPECT_LT(least, -0.08F) << name;
    EXPECT_LE(most, 0.1F) << name;
    EXPECT_GT(most, 0.08F) << name;
  }
}

TEST(Linear, IsTheSameForTheSameSeed) {
  Generator first(3), second(3);
  const Linear a(4, 5, first), b(4, 5, second);
  EXPECT_TRUE(equal(a.state_dict().at("weight"), b.state_dict().at("weight")));
  EXPECT_TRUE(equal(a.state_dict().at("bias"), b.state_dict().at("bias")));
}

TEST(Linear, RefusesSizesBelowOne) {
  Generator generator(1);
  expect_error(kMisuse, {"Linear", "0", "5"}, [&] { Linear(0, 5, generator); });
  expect_error(kMisuse, {"Linear", "5", "-1"}, [&] { Linear(5, -1, generator); });
}

TEST(Modules, NameTheirParametersByPath) {
  Generator generator(1);
  const Linear layer(2, 3, generator);
  EXPECT_EQ(names_of(layer), (std::vector<std::string>{"weight", "bias"}));
  const Sequential outer({small_model(generator)});
  EXPECT_EQ(names_of(outer),
            (std::vector<std::string>{"0.1.weight", "0.1.bias", "0.3.weight", "0.3.bias"}));
  EXPECT_EQ(outer.parameter_count(), 6 * 4 + 4 + 4 * 2 + 2);
}

TEST(Modules, ListOwnParametersBeforeSubmodules) {
  Generator generator(1);
  Named module;
  module.register_module("inner", std::make_shared<Linear>(1, 1, generator));
  module.register_parameter("own", Tensor::ones({1}));
  EXPECT_EQ(names_of(module), (std::vector<std::string>{"own", "inner.weight", "inner.bias"}));
}

TEST(Modules, RefuseNamesThatWouldBeAmbiguous) {
  Named module;
  module.register_parameter("w", Tensor::ones({1}));
  const auto add = [&](const char* name) { module.register_parameter(name, Tensor::ones({1})); };
  expect_error(kMisuse, {"'w'", "already"}, [&] { add("w"); });
  expect_error(kMisuse, {"'a.b'"}, [&] { add("a.b"); });
  expect_error(kMisuse, {"empty"}, [&] { add(""); });
  expect_error(kMisuse, {"'w'", "already"},
               [&] { module.register_module("w", std::make_shared<ReLU>()); });
  expect_error(kMisuse, {"'none'", "no module"}, [&] { module.register_module("none", nullptr); });
  expect_error(kMisuse, {"'x'", "undefined"}, [&] { module.register_parameter("x", Tensor()); });
  expect_error(kMisuse, {"'y'", "leaf"},
               [&] { module.register_parameter("y", relu(Variable(Tensor::ones({1}), true))); });
  EXPECT_EQ(names_of(module), (std::vector<std::string>{"w"}));
}

TEST(Modules, ComputeWhatTheirFunctionsDo) {
  Generator generator(1);
  const auto model = small_model(generator);
  const Variable x(Tensor::uniform({5, 2, 3}, -1, 1, generator));
  const auto p = model->parameters();
  const Variable y = linear(relu(linear(reshape(x, {5, 6}), p[0], p[1])), p[2], p[3]);
  EXPECT_TRUE(equal(model->forward(x).value(), y.value()));
}

TEST(Modules, TakeBatchesOfNothing) {
  Generator generator(1);
  const auto model = small_model(generator);
  EXPECT_EQ(model->forward(Variable(Tensor::zeros({0, 2, 3}))).shape(), (Shape{0, 2}));
  EXPECT_EQ(Flatten().forward(Variable(Tensor::zeros({4}))).shape(), (Shape{4, 1}));
  expect_error(kMisuse, {"Flatten", "scalar"},
               [] { static_cast<void>(Flatten().forward(Variable(Tensor::zeros({})))); });
}

TEST(Modules, AreWrittenAsTheirSpec) {
  Generator generator(1);
  std::ostringstream text;
  text << *small_model(generator);
  EXPECT_EQ(text.str(), "Sequential(Flatten(), Linear(6, 4), ReLU(), Linear(4, 2))");
  expect_error(ErrorKind::unsupported, {"spec"}, [] { static_cast<void>(Named().spec()); });
}

TEST(Modules, MayStandInASequenceTwice) {
  const auto again = std::make_shared<ReLU>();
  EXPECT_EQ(Sequential({again, again}).spec(), "Sequential(ReLU(), ReLU())");
}

}  // namespace
}  // namespace shoal::autograd
