#include "shoal/autograd/modules.h"

#include <cmath>
#include <utility>

#include "shoal/autograd/functions.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, Generator& generator,
               DType dtype)
    : in_features_(in_features), out_features_(out_features) {
  check(in_features >= 1 && out_features >= 1, ErrorKind::invalid_argument, "Linear", "sizes ",
        in_features, " and ", out_features, " must be at least 1");
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  const auto draw = [&](const Shape& shape) {
    return Tensor::uniform(shape, -bound, bound, generator, dtype);
  };
  weight_ = register_parameter("weight", draw({out_features, in_features}));
  bias_ = register_parameter("bias", draw({out_features}));
}

Variable Linear::forward(const Variable& x) { return linear(x, weight_, bias_); }

std::string Linear::spec() const {
  return concat("Linear(", in_features_, ", ", out_features_, ")");
}

Variable ReLU::forward(const Variable& x) { return relu(x); }

std::string ReLU::spec() const { return "ReLU()"; }

Variable Flatten::forward(const Variable& x) {
  check(x.shape().rank() >= 1, ErrorKind::invalid_argument, "Flatten", "a scalar has no rows");
  // Counted here, since a -1 is ambiguous where there are no rows.
  std::int64_t rest = 1;
  for (int axis = 1; axis < x.shape().rank(); ++axis) rest *= x.shape()[axis];
  return reshape(x, {x.shape()[0], rest});
}

std::string Flatten::spec() const { return "Flatten()"; }

Sequential::Sequential(std::vector<std::shared_ptr<Module>> modules)
    : modules_(std::move(modules)) {
  for (std::size_t i = 0; i < modules_.size(); ++i) register_module(std::to_string(i), modules_[i]);
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (const auto& module : modules_) y = module->forward(y);
  return y;
}

std::string Sequential::spec() const {
  std::string text = "Sequential(";
  for (std::size_t i = 0; i < modules_.size(); ++i) text += (i ? ", " : "") + modules_[i]->spec();
  return text + ")";
}

}  // namespace shoal::autograd
