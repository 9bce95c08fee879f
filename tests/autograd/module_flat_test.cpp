#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/modules.h"

namespace shoal::autograd {
namespace {

constexpr ErrorKind kMisuse = ErrorKind::invalid_argument;

struct Named : Module {
  using Module::register_module;
  using Module::register_parameter;
  Variable forward(const Variable& x) override { return x; }
};

// Parameters of 15, 3, 6 and 2 elements: with gaps 16 each in f32.
struct Flat : testing::Test {
  Generator generator{5};
  std::shared_ptr<Linear> first = std::make_shared<Linear>(5, 3, generator);
  Sequential model{{first, std::make_shared<ReLU>(), std::make_shared<Linear>(3, 2, generator)}};

  [[nodiscard]] StateDict copies() const {
    StateDict state;
    for (const auto& [name, value] : model.state_dict()) state.emplace(name, value.clone());
    return state;
  }
  void expect_values(const StateDict& wanted) const {
    for (const auto& [name, value] : model.state_dict())
      EXPECT_TRUE(equal(value, wanted.at(name))) << name;
  }
  void run_backward() {
    sum(model.forward(Variable(Tensor::uniform({4, 5}, -1, 1, generator)))).backward();
  }
};

TEST_F(Flat, KeepsValuesAndStartsGradientsAtZero) {
  const StateDict before = copies();
  const auto [values, grads] = model.flatten();
  expect_values(before);
  EXPECT_TRUE(equal(grads, Tensor::zeros({model.flat_size()})));
}

TEST_F(Flat, AlignsEachParameterAndLeavesZerosBetween) {
  const auto [values, grads] = model.flatten();
  EXPECT_EQ(values.shape(), (Shape{64}));
  EXPECT_EQ(model.flat_size(), 64);
  std::int64_t offset = 0;
  for (const Variable& parameter : model.parameters()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.value().data_ptr()) % 64, 0U);
    EXPECT_EQ(parameter.value().offset(), offset);
    EXPECT_EQ(parameter.grad().offset(), offset);
    EXPECT_TRUE(parameter.value().is_contiguous());
    offset += 16;
  }
  run_backward();
  for (const Tensor& each : {values, grads}) EXPECT_EQ(each.at<float>(15), 0);
}

TEST_F(Flat, WritingToTheVectorWritesToTheParameters) {
  model.flatten().values.fill_(0.5);
  for (const auto& [name, value] : model.state_dict())
    EXPECT_TRUE(equal(value, Tensor::full(value.shape(), 0.5))) << name;
}

TEST_F(Flat, BackwardFillsTheGradientVector) {
  run_backward();
  const Tensor loose = first->parameters()[1].grad().clone();
  const auto [values, grads] = model.flatten();
  generator = Generator(9);
  run_backward();
  const Tensor once = grads.clone();
  EXPECT_FALSE(equal(once, Tensor::zeros({64})));
  EXPECT_TRUE(equal(grads.slice(0, 16, 19), first->parameters()[1].grad()));
  generator = Generator(9);
  run_backward();
  EXPECT_FLOAT_EQ(grads.at<float>(16), 2 * once.at<float>(16));
  model.zero_grad();
  EXPECT_TRUE(equal(grads, Tensor::zeros({64})));
}

TEST_F(Flat, StaysWhereItIs) {
  const auto once = model.flatten();
  const auto twice = model.flatten();
  EXPECT_EQ(once.values.data_ptr(), twice.values.data_ptr());
  EXPECT_EQ(once.grads.data_ptr(), twice.grads.data_ptr());
}

TEST_F(Flat, NoticesThatASubmoduleWasFlattenedByItself) {
  const auto outer = model.flatten();
  const StateDict before = copies();
  const auto inner = first->flatten();
  run_backward();
  model.zero_grad();
  EXPECT_TRUE(equal(inner.grads, Tensor::zeros({32})));
  const auto again = model.flatten();
  EXPECT_NE(again.values.data_ptr(), outer.values.data_ptr());
  expect_values(before);
  EXPECT_EQ(first->parameters()[0].value().data_ptr(), again.values.data_ptr());
}

TEST_F(Flat, JoinsGivenVectorsAndTakesTheirValues) {
  const Tensor board = Tensor::full({2, 64}, 3);
  const Tensor values = Tensor::full({64}, 0.25);
  model.flatten_into({values, board.select(0, 1)});
  for (const Variable& parameter : model.parameters()) {
    EXPECT_TRUE(equal(parameter.value(), Tensor::full(parameter.shape(), 0.25)));
    EXPECT_TRUE(equal(parameter.grad(), Tensor::full(parameter.shape(), 3)));
  }
  EXPECT_EQ(model.flatten().values.data_ptr(), values.data_ptr());
  model.zero_grad();
  EXPECT_TRUE(equal(board.select(0, 1), Tensor::zeros({64})));
  EXPECT_TRUE(equal(board.select(0, 0), Tensor::full({64}, 3)));
}

TEST_F(Flat, MakesPrivateGradientsWhereNoneAreGiven) {
  model.flatten_into({Tensor::zeros({64}), {}});
  EXPECT_TRUE(equal(model.flatten().grads, Tensor::zeros({64})));
}

TEST_F(Flat, RefusesVectorsThatDoNotFit) {
  const StateDict before = copies();
  const auto join = [this](const Tensor& values, const Tensor& grads) {
    model.flatten_into({values, grads});
  };
  const Tensor good = Tensor::zeros({64});
  expect_error(kMisuse, {"flatten_into", "values", "[63]", "[64]"},
               [&] { join(Tensor::zeros({63}), good); });
  expect_error(kMisuse, {"flatten_into", "grads", "f64", "f32"},
               [&] { join(good, Tensor::zeros({64}, DType::f64)); });
  expect_error(kMisuse, {"values", "gaps"}, [&] {
    join(Tensor::zeros({64, 2}).select(1, 0), good);
  });
  expect_error(kMisuse, {"values", "undefined"}, [&] { join({}, good); });
  expect_values(before);
}

TEST(FlatModules, NeedParametersOfOneDtype) {
  expect_error(kMisuse, {"flatten", "no parameters"}, [] { ReLU().flatten(); });
  EXPECT_EQ(ReLU().flat_size(), 0);
  Named mixed;
  mixed.register_parameter("a", Tensor::ones({1}));
  mixed.register_parameter("b", Tensor::ones({1}, DType::f64));
  expect_error(kMisuse, {"flatten", "f32", "f64"}, [&] { mixed.flatten(); });
}

TEST(FlatModules, TiedParametersHaveOnePlaceAndAllTheirNames) {
  Named module;
  const Variable w = module.register_parameter("encoder", Tensor::full({2, 2}, 3));
  module.register_parameter("decoder", w);
  EXPECT_EQ(module.named_parameters().size(), 2U);
  EXPECT_EQ(module.parameters().size(), 1U);
  EXPECT_EQ(module.parameter_count(), 4);
  const auto [values, grads] = module.flatten();
  EXPECT_EQ(values.shape(), (Shape{16}));
  const StateDict state = module.state_dict();
  EXPECT_EQ(state.at("encoder").data_ptr(), values.data_ptr());
  EXPECT_EQ(state.at("decoder").data_ptr(), values.data_ptr());
  sum(matmul(w, module.named_parameters()[1].second)).backward();
  EXPECT_EQ(grads.at<float>(0), 12);
}

}  // namespace
}  // namespace shoal::autograd
