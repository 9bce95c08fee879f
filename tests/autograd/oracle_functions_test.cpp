#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "autograd/oracles.h"
#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {
namespace {

using Inputs = std::vector<Variable>;
using Function = std::function<Variable(const Inputs&, const Json& attrs)>;

struct Case {
  Function function;
  int count = 0;  // entries that must be there
};

// What the entries are called: the op, and what tells those we offer from those for later.
std::string name_of(const Json& entry) {
  std::string name = entry.at("op");
  const Json& attrs = entry.at("attrs");
  if (attrs.contains("dim") && !attrs.at("dim").is_null())
    name += " along " + attrs.at("dim").dump();
  if (name == "matmul" && entry.at("inputs").at(0).at("shape").size() > 2) name += " in batches";
  return name;
}

const std::map<std::string, Case> kCases{
    {"add", {[](const Inputs& in, const Json&) { return add(in[0], in[1]); }, 3}},
    {"sub", {[](const Inputs& in, const Json&) { return sub(in[0], in[1]); }, 3}},
    {"mul", {[](const Inputs& in, const Json&) { return mul(in[0], in[1]); }, 3}},
    {"div", {[](const Inputs& in, const Json&) { return div(in[0], in[1]); }, 3}},
    {"matmul", {[](const Inputs& in, const Json&) { return matmul(in[0], in[1]); }, 1}},
    {"matmul in batches", {[](const Inputs& in, const Json&) { return matmul(in[0], in[1]); }, 1}},
    {"linear", {[](const Inputs& in, const Json&) { return linear(in[0], in[1], in[2]); }, 1}},
    {"neg", {[](const Inputs& in, const Json&) { return neg(in[0]); }, 1}},
    {"square", {[](const Inputs& in, const Json&) { return square(in[0]); }, 1}},
    {"abs", {[](const Inputs& in, const Json&) { return abs(in[0]); }, 1}},
    {"exp", {[](const Inputs& in, const Json&) { return exp(in[0]); }, 1}},
    {"log", {[](const Inputs& in, const Json&) { return log(in[0]); }, 1}},
    {"sqrt", {[](const Inputs& in, const Json&) { return sqrt(in[0]); }, 1}},
    {"relu", {[](const Inputs& in, const Json&) { return relu(in[0]); }, 1}},
    {"sigmoid", {[](const Inputs& in, const Json&) { return sigmoid(in[0]); }, 1}},
    {"tanh", {[](const Inputs& in, const Json&) { return tanh(in[0]); }, 1}},
    {"sum", {[](const Inputs& in, const Json&) { return sum(in[0]); }, 1}},
    {"sum along 0", {[](const Inputs& in, const Json&) { return sum(in[0], 0); }, 1}},
    {"sum along 1", {[](const Inputs& in, const Json&) { return sum(in[0], 1); }, 1}},
    {"mean", {[](const Inputs& in, const Json&) { return mean(in[0]); }, 1}},
    {"mean along 0", {[](const Inputs& in, const Json&) { return mean(in[0], 0); }, 1}},
    {"mean along 1", {[](const Inputs& in, const Json&) { return mean(in[0], 1); }, 1}},
    {"softmax along -1", {[](const Inputs& in, const Json&) { return softmax(in[0]); }, 1}},
    {"log_softmax along -1", {[](const Inputs& in, const Json&) { return log_softmax(in[0]); }, 1}},
    {"transpose", {[](const Inputs& in, const Json&) { return transpose(in[0]); }, 1}},
    {"reshape",
     {[](const Inputs& in, const Json& attrs) {
        return reshape(in[0], shape_of(attrs.at("shape")));
      },
      1}},
    {"slice",
     {[](const Inputs& in, const Json& attrs) {
        EXPECT_EQ(attrs.at("spec"), "[1:3, ::2]");
        return slice(slice(in[0], 0, 1, 3), 1, 0, in[0].shape()[1], 2);
      },
      1}},
    {"conv2d",
     {[](const Inputs& in, const Json& attrs) {
        return conv2d(in[0], in[1], in[2],
                      {.stride = attrs.at("stride"), .padding = attrs.at("padding")});
      },
      2}},
    {"max_pool2d",
     {[](const Inputs& in, const Json& attrs) { return max_pool2d(in[0], attrs.at("kernel")); },
      1}},
    {"concat along 0", {[](const Inputs& in, const Json&) { return cat(in, 0); }, 1}},
};

void run_entry(const Json& entry, const Function& function, DType dtype, double tolerance) {
  const std::string name = name_of(entry);
  Inputs inputs;
  for (const Json& input : entry.at("inputs")) inputs.emplace_back(tensor_of(input, dtype), true);
  const Variable y = function(inputs, entry.at("attrs"));
  expect_close(y.value(), tensor_of(entry.at("y"), DType::f64), tolerance, name);
  y.backward(tensor_of(entry.at("cotangent"), dtype));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close(inputs[i].grad(), tensor_of(entry.at("grads").at(i), DType::f64), tolerance,
                 name + ", gradient " + std::to_string(i));
    EXPECT_EQ(inputs[i].grad().dtype(), dtype);
  }
}

struct Precision {
  DType dtype;
  double tolerance;
};

class OracleFunctions : public testing::TestWithParam<Precision> {};

TEST_P(OracleFunctions, AgreeInValueAndGradient) {
  std::map<std::string, int> ran;
  for (const Json& entry : oracles().at("ops")) {
    const auto found = kCases.find(name_of(entry));
    if (entry.at("op") == "embedding") continue;  // below: its first input is an index
    ASSERT_NE(found, kCases.end()) << name_of(entry);
    ++ran[found->first];
    run_entry(entry, found->second.function, GetParam().dtype, GetParam().tolerance);
  }
  for (const auto& [name, expected] : kCases) EXPECT_EQ(ran[name], expected.count) << name;
}

TEST_P(OracleFunctions, AgreeInEmbedding) {
  const auto [dtype, tolerance] = GetParam();
  int ran = 0;
  for (const Json& entry : oracles().at("ops")) {
    if (entry.at("op") != "embedding") continue;
    ++ran;
    const Tensor index = tensor_of(entry.at("inputs").at(0), DType::f64).to(DType::i64);
    const Variable table(tensor_of(entry.at("inputs").at(1), dtype), true);
    const Variable y = embedding(table, index);
    expect_close(y.value(), tensor_of(entry.at("y"), DType::f64), tolerance, "embedding");
    y.backward(tensor_of(entry.at("cotangent"), dtype));
    const Json& gradients = entry.at("grads");
    expect_close(table.grad(), tensor_of(gradients.at(gradients.size() - 1), DType::f64), tolerance,
                 "gradient");
  }
  EXPECT_EQ(ran, 1);
}

Reduction reduction_of(const Json& attrs) {
  const std::string name = attrs.at("reduction");
  return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

Variable loss_of(const Json& entry, const Variable& x, DType dtype) {
  const std::string loss = entry.at("loss");
  const Json& attrs = entry.at("attrs");
  const Reduction reduction = reduction_of(attrs);
  if (loss == "mse") return mse_loss(x, Variable(tensor_of(entry.at("target"), dtype)), reduction);
  if (loss == "bce_with_logits")
    return bce_with_logits(x, tensor_of(entry.at("target"), dtype), reduction);
  ClassLossOptions options{.reduction = reduction};
  if (attrs.contains("weight"))
    options.weight = Tensor::from(attrs.at("weight").get<std::vector<double>>(),
                                  {static_cast<std::int64_t>(attrs.at("weight").size())})
                         .to(dtype);
  if (attrs.contains("label_smoothing")) options.label_smoothing = attrs.at("label_smoothing");
  const Tensor targets = classes_of(entry.at("target"));
  return loss == "nll" ? nll_loss(x, targets, options) : cross_entropy(x, targets, options);
}

TEST_P(OracleFunctions, AgreeInLosses) {
  const auto [dtype, tolerance] = GetParam();
  for (const Json& entry : oracles().at("losses")) {
    const std::string what = concat(std::string(entry.at("loss")), ' ', entry.at("attrs").dump());
    const Variable x(tensor_of(entry.at("x"), dtype), true);
    const Variable loss = loss_of(entry, x, dtype);
    expect_close(loss.value(), tensor_of(entry.at("value"), DType::f64), tolerance, what);
    // The gradients are those of the sum.
    loss.backward(Tensor::ones(loss.shape(), dtype));
    expect_close(x.grad(), tensor_of(entry.at("grad"), DType::f64), tolerance, what + ", gradient");
  }
  EXPECT_EQ(oracles().at("losses").size(), 12U);
}

INSTANTIATE_TEST_SUITE_P(Precisions, OracleFunctions,
                         testing::Values(Precision{DType::f64, 1e-10}, Precision{DType::f32, 1e-5}),
                         [](const auto& each) { return std::string(to_string(each.param.dtype)); });

}  // namespace
}  // namespace shoal::autograd
