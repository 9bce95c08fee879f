#include <gtest/gtest.h>

#include "autograd/expect_error.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/modules.h"

namespace shoal::autograd {
namespace {

StateDict copies_of(const Module& module) {
  StateDict state;
  for (const auto& [name, value] : module.state_dict()) state.emplace(name, value.clone());
  return state;
}

void expect_same(const Module& module, const StateDict& wanted) {
  for (const auto& [name, value] : module.state_dict())
    EXPECT_TRUE(equal(value, wanted.at(name))) << name;
}

TEST(StateDict, IsTheParametersThemselves) {
  Generator generator(1);
  const Linear layer(2, 3, generator);
  const StateDict state = layer.state_dict();
  state.at("bias").fill_(9);
  EXPECT_TRUE(equal(layer.parameters()[1].value(), Tensor::full({3}, 9)));
}

TEST(StateDict, LoadsInPlaceAndConverts) {
  Generator generator(1);
  Linear layer(2, 3, generator);
  const FlatParameters flat = layer.flatten();
  layer.load_state_dict({{"weight", Tensor::full({3, 2}, 2, DType::f64)},
                         {"bias", Tensor::from<float>({1, 2, 3, 4, 5, 6}).slice(0, 0, 6, 2)}});
  EXPECT_EQ(flat.values.at<float>(0), 2);
  EXPECT_TRUE(equal(flat.values.slice(0, 16, 19), Tensor::from<float>({1, 3, 5})));
}

TEST(StateDict, ChangesNothingUnlessEverythingFits) {
  Generator generator(1);
  const Linear layer(2, 3, generator);
  const StateDict before = copies_of(layer);
  const auto load = [&](const StateDict& state) { layer.load_state_dict(state); };
  const Tensor weight = Tensor::zeros({3, 2}), bias = Tensor::zeros({3});
  const ErrorKind misuse = ErrorKind::invalid_argument;
  expect_error(misuse, {"load_state_dict", "missing 'bias'"}, [&] { load({{"weight", weight}}); });
  expect_error(misuse, {"missing 'bias'"}, [&] { load({{"weight", weight}, {"bias", {}}}); });
  expect_error(misuse, {"unexpected 'more'"}, [&] {
    load({{"weight", weight}, {"bias", bias}, {"more", bias}});
  });
  expect_error(misuse, {"'weight'", "[3, 2]", "[2, 3]"}, [&] {
    load({{"weight", weight.transpose()}, {"bias", bias}});
  });
  expect_error(misuse, {"missing 'bias'", "unexpected 'x'", "'weight'"}, [&] {
    load({{"weight", bias}, {"x", bias}});
  });
  expect_same(layer, before);
}

class SharedModule : public testing::TestWithParam<SharingStrategy> {};

TEST_P(SharedModule, KeepsItsValuesAndComputesOn) {
  Generator generator(4);
  const auto inner = std::make_shared<Linear>(3, 2, generator);
  Sequential model({inner, std::make_shared<ReLU>()});
  const StateDict before = copies_of(model);
  EXPECT_FALSE(model.is_shared());
  model.share_memory(GetParam());
  EXPECT_TRUE(model.is_shared());
  EXPECT_TRUE(inner->is_shared());
  expect_same(model, before);
  const FlatParameters flat = model.flatten();
  EXPECT_TRUE(flat.values.is_shared());
  EXPECT_FALSE(flat.grads.is_shared());
  sum(inner->forward(Variable(Tensor::ones({1, 3})))).backward();
  EXPECT_TRUE(equal(flat.grads.slice(0, 0, 6), Tensor::ones({6})));
  model.share_memory(GetParam());
  EXPECT_EQ(model.flatten().values.data_ptr(), flat.values.data_ptr());
}

TEST_P(SharedModule, LoadsIntoSharedMemory) {
  Generator generator(4);
  Linear layer(3, 2, generator);
  layer.share_memory(GetParam());
  layer.load_state_dict({{"weight", Tensor::ones({2, 3})}, {"bias", Tensor::ones({2})}});
  EXPECT_TRUE(layer.is_shared());
  EXPECT_EQ(layer.flatten().values.at<float>(0), 1);
}

TEST(SharedModules, NeedParameters) {
  EXPECT_FALSE(ReLU().is_shared());
  expect_error(ErrorKind::invalid_argument, {"no parameters"}, [] { ReLU().share_memory(); });
}

INSTANTIATE_TEST_SUITE_P(Strategies, SharedModule,
                         testing::ValuesIn(get_all_sharing_strategies().begin(),
                                           get_all_sharing_strategies().end()),
                         [](const auto& each) { return std::string(to_string(each.param)); });

}  // namespace
}  // namespace shoal::autograd
