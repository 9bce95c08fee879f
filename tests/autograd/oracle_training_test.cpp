#include <gtest/gtest.h>

#include "autograd/oracles.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/autograd/module_spec.h"
#include "shoal/optim/sgd.h"

namespace shoal::autograd {
namespace {

optim::SgdOptions options_of(const Json& json) {
  return {.lr = json.at("lr"),
          .momentum = json.value("momentum", 0.0),
          .dampening = json.value("dampening", 0.0),
          .weight_decay = json.value("weight_decay", 0.0),
          .nesterov = json.value("nesterov", false),
          .maximize = json.value("maximize", false)};
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
    optim::Sgd sgd({p}, options_of(options));
    int step = 0;
    for (const Json& wanted : entry.at("trajectory")) {
      for (; step < wanted.at("step").get<int>(); ++step) {
        sgd.zero_grad();
        objective(p, a).backward();
        sgd.step();
      }
      expect_close(p.value().flatten(),
                   Tensor::from(wanted.at("p").get<std::vector<double>>(), {p.value().numel()}),
                   1e-12, options.dump() + " at step " + std::to_string(step));
    }
    EXPECT_GE(step, 10);
  }
}

// "Linear(4,8)-ReLU-…", as make_module reads it.
std::string spec_of(std::string model) {
  for (auto at = model.find('-'); at != std::string::npos; at = model.find('-', at + 1))
    model.replace(at, 1, "(), ");
  for (auto at = model.find(")()"); at != std::string::npos; at = model.find(")()", at))
    model.erase(at + 1, 2);
  return "Sequential(" + model + ")";
}

TEST(OracleModules, TrainAsTheReferenceDoes) {
  ASSERT_EQ(oracles().at("modules").size(), 2U);
  for (const Json& entry : oracles().at("modules")) {
    Generator generator(1);
    const auto model = make_module(spec_of(entry.at("model")), generator, DType::f64);
    StateDict state;
    for (const auto& [name, value] : entry.at("state").items())
      state.emplace(name, tensor_of(value, DType::f64));
    model->load_state_dict(state);
    optim::Sgd sgd(*model, options_of(entry));
    const Variable x(tensor_of(entry.at("x"), DType::f64));
    const Tensor targets = classes_of(entry.at("target"));
    ASSERT_EQ(entry.at("losses").size(), 20U);
    for (const Json& wanted : entry.at("losses")) {
      sgd.zero_grad();
      const Variable loss = cross_entropy(model->forward(x), targets);
      EXPECT_NEAR(loss.value().item<double>(), wanted.get<double>(), 1e-10);
      loss.backward();
      sgd.step();
    }
    for (const auto& [name, value] : entry.at("final").items())
      expect_close(model->state_dict().at(name), tensor_of(value, DType::f64), 1e-10, name);
  }
}

}  // namespace
}  // namespace shoal::autograd
