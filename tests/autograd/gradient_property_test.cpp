#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/runtime/tensor/ops.h"
#include "shoal/runtime/tensor/random.h"

// The gradient of every function against the central difference, over drawn shapes and layouts.
namespace shoal::autograd {
namespace {

using Function = std::function<Variable(const std::vector<Variable>&)>;

constexpr double kStep = 1e-5;

std::int64_t draw_size(std::int64_t least = 1) { return *rc::gen::inRange<std::int64_t>(least, 5); }

Generator draw_generator() { return Generator(*rc::gen::arbitrary<std::uint64_t>()); }

Shape draw_shape() {
  Shape shape;
  const int rank = *rc::gen::inRange(0, 4);
  for (int axis = 0; axis < rank; ++axis) shape.push_back(draw_size(0));
  return shape;
}

// A shape that broadcasts to this one: some axes are 1, some of the first are left out.
Shape draw_operand(const Shape& shape) {
  Shape operand;
  for (int axis = *rc::gen::inRange(0, shape.rank() + 1); axis < shape.rank(); ++axis)
    operand.push_back(*rc::gen::arbitrary<bool>() ? 1 : shape[axis]);
  return operand;
}

// Numbers away from 0, where relu has a kink, in one of the layouts a tensor may have.
Tensor draw_values(const Shape& shape, Generator& generator) {
  const Tensor dense = Tensor::uniform(shape, 0.1, 1, generator, DType::f64);
  for (double& value : dense.span<double>())
    if (generator.below(2) == 0) value = -value;
  const int layout = *rc::gen::inRange(0, 3);
  if (layout == 0 || shape.rank() == 0) return dense;
  Tensor view;
  if (layout == 1) {  // axes in reverse order in memory
    view = dense.transpose().contiguous().transpose();
  } else {  // every other element, after an offset
    Shape wide = shape;
    wide[shape.rank() - 1] = 2 * wide[shape.rank() - 1] + 1;
    view = Tensor::zeros(wide, DType::f64).slice(-1, 1, wide[shape.rank() - 1], 2);
  }
  view.copy_(dense);
  return view;
}

// An index, as the row-major counter sees it, to the element.
double& element(const Tensor& tensor, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
    offset += index % tensor.shape()[axis] * tensor.strides()[axis];
    index /= tensor.shape()[axis];
  }
  return tensor.data<double>()[offset];
}

double weighted(const Function& function, const std::vector<Variable>& inputs,
                const Tensor& weights) {
  const NoGradScope no_grad;
  return ops::sum(ops::mul(function(inputs).value(), weights)).item<double>();
}

void check_gradients(const Function& function, const std::vector<Variable>& inputs,
                     Generator& generator) {
  const Variable y = function(inputs);
  const Tensor weights = draw_values(y.shape(), generator);
  if (y.requires_grad()) y.backward(weights);
  for (const Variable& input : inputs) {
    if (!input.requires_grad()) continue;
    RC_ASSERT(input.grad().is_contiguous());
    RC_ASSERT(input.grad().shape() == input.shape());
    for (std::int64_t i = 0; i < input.value().numel(); ++i) {
      double& x = element(input.value(), i);
      const double middle = x;
      x = middle + kStep;
      const double above = weighted(function, inputs, weights);
      x = middle - kStep;
      const double below = weighted(function, inputs, weights);
      x = middle;
      const double slope = (above - below) / (2 * kStep);
      RC_ASSERT(std::abs(input.grad().span<double>()[static_cast<std::size_t>(i)] - slope) <=
                1e-7 * std::max(1.0, std::abs(slope)));
    }
  }
}

// Variables of these shapes, each needing a gradient or not.
std::vector<Variable> draw_inputs(std::initializer_list<Shape> shapes, Generator& generator) {
  std::vector<Variable> inputs;
  for (const Shape& shape : shapes)
    inputs.emplace_back(draw_values(shape, generator), *rc::gen::arbitrary<bool>());
  return inputs;
}

void check_binary(Variable (*function)(const Variable&, const Variable&)) {
  Generator generator = draw_generator();
  const Shape shape = draw_shape();
  const Shape left = draw_operand(shape), right = draw_operand(shape);
  check_gradients([=](const auto& in) { return function(in[0], in[1]); },
                  draw_inputs({left, right}, generator), generator);
}

void check_unary(const Function& function, const Shape& shape) {
  Generator generator = draw_generator();
  check_gradients(function, {Variable(draw_values(shape, generator), true)}, generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfAdd, ()) { check_binary(add); }
RC_GTEST_PROP(GradientIsTheSlope, OfSub, ()) { check_binary(sub); }
RC_GTEST_PROP(GradientIsTheSlope, OfMul, ()) { check_binary(mul); }

RC_GTEST_PROP(GradientIsTheSlope, OfDiv, ()) { check_binary(div); }

void check_elementwise(Variable (*function)(const Variable&)) {
  check_unary([function](const auto& in) { return function(in[0]); }, draw_shape());
}

// Of positive numbers alone.
void check_positive(Variable (*function)(const Variable&)) {
  check_unary([function](const auto& in) { return function(abs(in[0])); }, draw_shape());
}

RC_GTEST_PROP(GradientIsTheSlope, OfNeg, ()) { check_elementwise(neg); }
RC_GTEST_PROP(GradientIsTheSlope, OfSquare, ()) { check_elementwise(square); }
RC_GTEST_PROP(GradientIsTheSlope, OfAbs, ()) { check_elementwise(abs); }
RC_GTEST_PROP(GradientIsTheSlope, OfExp, ()) { check_elementwise(exp); }
RC_GTEST_PROP(GradientIsTheSlope, OfLog, ()) { check_positive(log); }
RC_GTEST_PROP(GradientIsTheSlope, OfSqrt, ()) { check_positive(sqrt); }
RC_GTEST_PROP(GradientIsTheSlope, OfRelu, ()) { check_elementwise(relu); }
RC_GTEST_PROP(GradientIsTheSlope, OfSigmoid, ()) { check_elementwise(sigmoid); }
RC_GTEST_PROP(GradientIsTheSlope, OfTanh, ()) { check_elementwise(tanh); }

RC_GTEST_PROP(GradientIsTheSlope, OfSum, ()) {
  check_unary([](const auto& in) { return sum(in[0]); }, draw_shape());
}

RC_GTEST_PROP(GradientIsTheSlope, OfMean, ()) {
  const Shape shape = draw_shape();
  RC_PRE(numel(shape) > 0);
  check_unary([](const auto& in) { return mean(in[0]); }, shape);
}

void check_along_axis(Variable (*function)(const Variable&, int, bool), std::int64_t least) {
  Shape shape = draw_shape();
  shape.push_back(0);
  for (int i = 0; i < shape.rank(); ++i) shape[i] = draw_size(least);
  const int axis = *rc::gen::inRange(-shape.rank(), shape.rank());
  const bool keepdim = *rc::gen::arbitrary<bool>();
  check_unary([=](const auto& in) { return function(in[0], axis, keepdim); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfSumAlongAnAxis, ()) { check_along_axis(sum, 0); }
RC_GTEST_PROP(GradientIsTheSlope, OfMeanAlongAnAxis, ()) { check_along_axis(mean, 1); }
RC_GTEST_PROP(GradientIsTheSlope, OfMaxAlongAnAxis, ()) { check_along_axis(max, 1); }

RC_GTEST_PROP(GradientIsTheSlope, OfTranspose, ()) {
  Shape shape = draw_shape();
  shape.push_back(draw_size(0));
  const int axis0 = *rc::gen::inRange(-shape.rank(), shape.rank());
  const int axis1 = *rc::gen::inRange(-shape.rank(), shape.rank());
  check_unary([=](const auto& in) { return transpose(in[0], axis0, axis1); }, shape);
  check_unary([=](const auto& in) { return transpose(in[0]); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfSlice, ()) {
  Shape shape = draw_shape();
  shape.push_back(draw_size());
  const int axis = *rc::gen::inRange(-shape.rank(), shape.rank());
  const std::int64_t start = draw_size(0) - 2, end = draw_size(0), step = draw_size();
  check_unary([=](const auto& in) { return slice(in[0], axis, start, end, step); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfCat, ()) {
  Generator generator = draw_generator();
  Shape shape = draw_shape();
  shape.push_back(draw_size());
  const int axis = *rc::gen::inRange(-shape.rank(), shape.rank());
  Shape other = shape;
  other[normalize_axis(axis, shape.rank(), "test")] = draw_size(0);
  check_gradients([axis](const auto& in) { return cat(in, axis); },
                  draw_inputs({shape, other, shape}, generator), generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfReshape, ()) {
  const Shape shape = draw_shape();
  const Shape other = *rc::gen::arbitrary<bool>() ? Shape{1, numel(shape)} : Shape{numel(shape)};
  check_unary([other](const auto& in) { return reshape(in[0], other); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfLogSoftmax, ()) {
  Shape shape = draw_shape();
  shape.push_back(draw_size());
  const int axis = *rc::gen::inRange(-shape.rank(), shape.rank());
  check_unary([axis](const auto& in) { return log_softmax(in[0], axis); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfSoftmax, ()) {
  Shape shape = draw_shape();
  shape.push_back(draw_size());
  const int axis = *rc::gen::inRange(-shape.rank(), shape.rank());
  check_unary([axis](const auto& in) { return softmax(in[0], axis); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfMatmul, ()) {
  Generator generator = draw_generator();
  const std::int64_t m = draw_size(0), k = draw_size(0), n = draw_size(0);
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  draw_inputs({{m, k}, {k, n}}, generator), generator);
}

// Of batches that are broadcast to each other.
RC_GTEST_PROP(GradientIsTheSlope, OfMatmulInBatches, ()) {
  Generator generator = draw_generator();
  Shape batch;
  for (int axis = *rc::gen::inRange(1, 3); axis > 0; --axis) batch.push_back(draw_size(0));
  Shape a = draw_operand(batch), b = draw_operand(batch);
  const std::int64_t m = draw_size(), k = draw_size(0), n = draw_size();
  for (const std::int64_t size : {m, k}) a.push_back(size);
  for (const std::int64_t size : {k, n}) b.push_back(size);
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  draw_inputs({a, b}, generator), generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfConv2d, ()) {
  Generator generator = draw_generator();
  const std::int64_t n = draw_size(0), c = draw_size(), outputs = draw_size();
  const std::int64_t kh = draw_size(), kw = draw_size();
  const ops::Conv2dOptions options{.stride = draw_size(), .padding = draw_size(0)};
  const std::int64_t h = kh + draw_size(0), w = kw + draw_size(0);
  const bool biased = *rc::gen::arbitrary<bool>();
  check_gradients(
      [=](const auto& in) { return conv2d(in[0], in[1], biased ? in[2] : Variable(), options); },
      {Variable(draw_values({n, c, h, w}, generator), *rc::gen::arbitrary<bool>()),
       Variable(draw_values({outputs, c, kh, kw}, generator), true),
       Variable(draw_values({outputs}, generator), biased)},
      generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfMaxPool2d, ()) {
  const std::int64_t kernel = draw_size(), stride = draw_size(0);
  const Shape shape{draw_size(0), draw_size(), kernel + draw_size(0), kernel + draw_size(0)};
  check_unary([=](const auto& in) { return max_pool2d(in[0], kernel, stride); }, shape);
}

RC_GTEST_PROP(GradientIsTheSlope, OfEmbedding, ()) {
  Generator generator = draw_generator();
  const std::int64_t rows = draw_size(), d = draw_size(0);
  const Tensor index = Tensor::empty(draw_shape(), DType::i64);
  for (std::int64_t& row : index.span<std::int64_t>())
    row = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(rows)));
  check_gradients([index](const auto& in) { return embedding(in[0], index); },
                  {Variable(draw_values({rows, d}, generator), true)}, generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfLinear, ()) {
  Generator generator = draw_generator();
  const std::int64_t n = draw_size(0), in_size = draw_size(), out = draw_size();
  const bool biased = *rc::gen::arbitrary<bool>();
  check_gradients(
      [biased](const auto& in) { return linear(in[0], in[1], biased ? in[2] : Variable()); },
      {Variable(draw_values({n, in_size}, generator), true),
       Variable(draw_values({out, in_size}, generator), *rc::gen::arbitrary<bool>()),
       Variable(draw_values({out}, generator), biased)},
      generator);
}

Reduction draw_reduction() {
  return *rc::gen::element(Reduction::mean, Reduction::sum, Reduction::none);
}

// With weights or without; the last row may be ignored.
void check_class_loss(Variable (*loss)(const Variable&, const Tensor&, const ClassLossOptions&),
                      bool may_be_smoothed) {
  Generator generator = draw_generator();
  const std::int64_t n = draw_size(), c = draw_size();
  const Tensor targets = Tensor::zeros({n}, DType::i64);
  for (std::int64_t& target : targets.span<std::int64_t>())
    target = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(c)));
  ClassLossOptions options{.ignore_index = -7, .reduction = draw_reduction()};
  if (n > 1 && *rc::gen::arbitrary<bool>()) targets.at<std::int64_t>(n - 1) = -7;
  if (*rc::gen::arbitrary<bool>())
    options.weight = Tensor::uniform({c}, 0.5, 2, generator, DType::f64);
  if (may_be_smoothed && *rc::gen::arbitrary<bool>()) options.label_smoothing = 0.3;
  check_gradients([=](const auto& in) { return loss(in[0], targets, options); },
                  {Variable(draw_values({n, c}, generator), true)}, generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfCrossEntropy, ()) { check_class_loss(cross_entropy, true); }
RC_GTEST_PROP(GradientIsTheSlope, OfNllLoss, ()) { check_class_loss(nll_loss, false); }

RC_GTEST_PROP(GradientIsTheSlope, OfMseLoss, ()) {
  Generator generator = draw_generator();
  const Shape shape = draw_shape();
  RC_PRE(numel(shape) > 0);
  const Reduction reduction = draw_reduction();
  check_gradients([reduction](const auto& in) { return mse_loss(in[0], in[1], reduction); },
                  draw_inputs({shape, shape}, generator), generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfBceWithLogits, ()) {
  Generator generator = draw_generator();
  const Shape shape = draw_shape();
  RC_PRE(numel(shape) > 0);
  const Tensor targets = Tensor::uniform(shape, 0, 1, generator, DType::f64);
  const Reduction reduction = draw_reduction();
  check_gradients([=](const auto& in) { return bce_with_logits(in[0], targets, reduction); },
                  {Variable(draw_values(shape, generator), true)}, generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfHingeLoss, ()) {
  Generator generator = draw_generator();
  const Shape shape = draw_shape();
  RC_PRE(numel(shape) > 0);
  const Tensor targets = Tensor::empty(shape, DType::f64);
  for (double& target : targets.span<double>()) target = generator.below(2) == 0 ? -1 : 1;
  const Reduction reduction = draw_reduction();
  check_gradients([=](const auto& in) { return hinge_loss(in[0], targets, reduction); },
                  {Variable(draw_values(shape, generator), true)}, generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfLinearRelu, ()) {
  Generator generator = draw_generator();
  const std::int64_t n = draw_size(), in = draw_size(), out = draw_size();
  const std::vector<Variable> inputs = {Variable(draw_values({n, in}, generator), true),
                                        Variable(draw_values({out, in}, generator), true),
                                        Variable(draw_values({out}, generator), true)};
  const Variable before_relu = linear(inputs[0], inputs[1], inputs[2]);
  RC_PRE(std::ranges::none_of(before_relu.value().span<double>(),
                              [](double x) { return std::abs(x) <= 2 * kStep; }));
  check_gradients([](const auto& x) { return linear_relu(x[0], x[1], x[2]); }, inputs, generator);
}

RC_GTEST_PROP(GradientIsTheSlope, OfEmbeddingBag, ()) {
  Generator generator = draw_generator();
  const std::int64_t rows = draw_size(), width = draw_size(), bags = draw_size();
  const Tensor index = Tensor::empty({bags, draw_size(0)}, DType::i64);
  for (std::int64_t& i : index.span<std::int64_t>())
    i = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(rows)));
  const BagMode mode = *rc::gen::arbitrary<bool>() ? BagMode::sum : BagMode::mean;
  check_gradients([=](const auto& x) { return embedding_bag(x[0], index, mode); },
                  {Variable(draw_values({rows, width}, generator), true)}, generator);
}

// The same mask at each call.
RC_GTEST_PROP(GradientIsTheSlope, OfDropout, ()) {
  Generator generator = draw_generator();
  const Generator of_mask = draw_generator();
  const bool planes = *rc::gen::arbitrary<bool>();
  const Shape shape = planes ? Shape{draw_size(), draw_size(), draw_size(), draw_size()}
                             : Shape{draw_size(), draw_size()};
  check_gradients(
      [=](const auto& x) {
        Generator same = of_mask;
        return planes ? dropout2d(x[0], 0.4, same) : dropout(x[0], 0.4, same);
      },
      {Variable(draw_values(shape, generator), true)}, generator);
}

// Gradients pass through views of views and meet again.
RC_GTEST_PROP(GradientIsTheSlope, OfAFunctionOfFunctions, ()) {
  Generator generator = draw_generator();
  const std::int64_t n = draw_size(), c = draw_size();
  const std::vector<Variable> inputs = {Variable(draw_values({n, c}, generator), true),
                                        Variable(draw_values({c, c}, generator), true),
                                        Variable(draw_values({c}, generator), true)};
  // There is no slope at relu's kink, and a step must not cross it: it moves what relu gets by no
  // more than itself.
  const Variable before_relu = linear(inputs[0], inputs[1], inputs[2]);
  RC_PRE(std::ranges::none_of(before_relu.value().span<double>(),
                              [](double x) { return std::abs(x) <= 2 * kStep; }));
  check_gradients(
      [n, c](const auto& in) {
        const Variable hidden = relu(linear(in[0], in[1], in[2]));
        const Variable flat = reshape(add(hidden, in[2]), {1, n * c});
        return mul(sum(mul(flat, flat)), log_softmax(hidden));
      },
      inputs, generator);
}

TEST(LossOfNothing, IsNotANumber) {
  const Variable logits(Tensor::zeros({0, 3}), true);
  const Variable loss = cross_entropy(logits, Tensor::zeros({0}, DType::i64));
  EXPECT_TRUE(std::isnan(loss.value().item<float>()));
  loss.backward();
  EXPECT_EQ(logits.grad().shape(), (Shape{0, 3}));
  EXPECT_TRUE(std::isnan(mean(logits).value().item<float>()));
}

}  // namespace
}  // namespace shoal::autograd
