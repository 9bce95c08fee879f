#include <gtest/gtest.h>

#include "autograd/oracles.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/autograd/modules.h"
#include "shoal/optim/sgd.h"

namespace shoal::autograd {
namespace {

optim::SgdOptions options_of(const Json& json) {
  return {.lr = json.at("lr"),
          .momentum = json.value("momentum", 0.0),
          .dampening = json.value("dampening", 0.0),
          .weight_decay = json.value("weight_decay", 0.0),
          .nesterov = json.value("nesterov", false)};
}

Variable constant(double value) { return Variable(Tensor::full({}, value, DType::f64)); }

// 0.5 p A p^T + 0.1 sum(p), of p(1,n)
Variable objective(const Variable& p, const Variable& a) {
  const Variable column = reshape(p, {p.shape()[1], 1});
  const Variable square = mul(constant(0.5), sum(matmul(matmul(p, a), column)));
  return add(square, mul(constant(0.1), sum(p)));
}

Tensor matrix_of(const Json& rows) {
  std::vector<double> values;
  for (const Json& row : rows)
    for (const Json& value : row) values.push_back(value);
  const auto n = static_cast<std::int64_t>(rows.size());
  return Tensor::from(values, {n, n});
}

TEST(OracleSgd, FollowsEveryTrajectory) {
  ASSERT_EQ(oracles().at("sgd").size(), 7U);
  for (const Json& entry : oracles().at("sgd")) {
    const Json& options = entry.at("options");
    const auto start = entry.at("p0").get<std::vector<double>>();
    const Variable p(Tensor::from(start, {1, static_cast<std::int64_t>(start.size())}), true);
    const Variable a(matrix_of(entry.at("A")));
    // To climb is to descend the negative.
    const Variable sign = constant(options.value("maximize", false) ? -1 : 1);
    optim::Sgd sgd({p}, options_of(options));
    int step = 0;
    for (const Json& wanted : entry.at("trajectory")) {
      for (; step < wanted.at("step").get<int>(); ++step) {
        sgd.zero_grad();
        mul(sign, objective(p, a)).backward();
        sgd.step();
      }
      expect_close(p.value().flatten(),
                   Tensor::from(wanted.at("p").get<std::vector<double>>(), {p.value().numel()}),
                   1e-12, options.dump() + " at step " + std::to_string(step));
    }
    EXPECT_GE(step, 10);
  }
}

TEST(OracleModules, TrainAsTheReferenceDoes) {
  int ran = 0;
  for (const Json& entry : oracles().at("modules")) {
    // The other one convolves, which is for later.
    if (entry.at("model") != "Linear(4,8)-ReLU-Linear(8,3)") continue;
    ++ran;
    Generator generator(1);
    Sequential model({std::make_shared<Linear>(4, 8, generator, DType::f64),
                      std::make_shared<ReLU>(),
                      std::make_shared<Linear>(8, 3, generator, DType::f64)});
    StateDict state;
    for (const auto& [name, value] : entry.at("state").items())
      state.emplace(name, tensor_of(value, DType::f64));
    model.load_state_dict(state);
    optim::Sgd sgd(model, options_of(entry));
    const Variable x(tensor_of(entry.at("x"), DType::f64));
    const Tensor targets = classes_of(entry.at("target"));
    ASSERT_EQ(entry.at("losses").size(), 20U);
    for (const Json& wanted : entry.at("losses")) {
      sgd.zero_grad();
      const Variable loss = cross_entropy(model.forward(x), targets);
      EXPECT_NEAR(loss.value().item<double>(), wanted.get<double>(), 1e-10);
      loss.backward();
      sgd.step();
    }
    for (const auto& [name, value] : entry.at("final").items())
      expect_close(model.state_dict().at(name), tensor_of(value, DType::f64), 1e-10, name);
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace shoal::autograd
