#include "shoal/autograd/modules.h"

#include <array>
#include <charconv>
#include <cmath>
#include <typeinfo>
#include <utility>

#include "shoal/autograd/module_text.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {

namespace {

// A table's rows, as PyTorch draws them.
Tensor draw_table(std::int64_t rows, std::int64_t width, Generator& generator, DType dtype,
                  const char* name) {
  check(rows >= 1 && width >= 1, ErrorKind::invalid_argument, name, "sizes ", rows, " and ", width,
        " must be at least 1");
  return Tensor::normal({rows, width}, generator, dtype);
}

// Not of a class derived from M, which may do otherwise.
template <class M>
bool is_exactly(const Module& module) {
  return typeid(module) == typeid(M);
}

}  // namespace

double checked_probability(double p, const char* name) {
  check(p >= 0 && p < 1, ErrorKind::invalid_argument, name, "p is ", p, "; it must be in [0, 1)");
  return p;
}

// The shortest that reads back as the same number, with a point so that it reads as a real.
std::string real_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string written(text.data(), end);
  return written.find_first_of(".en") == std::string::npos ? written + ".0" : written;
}

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

Variable Linear::forward_relu(const Variable& x) const { return linear_relu(x, weight_, bias_); }

Variable ReLU::forward(const Variable& x) { return relu(x); }

std::string ReLU::spec() const { return "ReLU()"; }

Variable Sigmoid::forward(const Variable& x) { return sigmoid(x); }

std::string Sigmoid::spec() const { return "Sigmoid()"; }

Variable Tanh::forward(const Variable& x) { return tanh(x); }

std::string Tanh::spec() const { return "Tanh()"; }

Dropout::Dropout(double p, Generator& generator)
    : p_(checked_probability(p, "Dropout")), generator_(generator.below(UINT64_MAX)) {}

Variable Dropout::forward(const Variable& x) {
  return is_training() && p_ > 0 ? dropout(x, p_, generator_) : x;
}

std::string Dropout::spec() const { return concat("Dropout(", real_text(p_), ")"); }

Embedding::Embedding(std::int64_t rows, std::int64_t width, Generator& generator, bool sparse,
                     DType dtype)
    : weight_(register_parameter("weight", draw_table(rows, width, generator, dtype, "Embedding"))),
      sparse_(sparse) {}

Variable Embedding::forward(const Variable& x) { return embedding(weight_, x.value(), sparse_); }

std::string Embedding::spec() const {
  return concat("Embedding(", weight_.shape()[0], ", ", weight_.shape()[1], sparse_ ? ", 1)" : ")");
}

EmbeddingBag::EmbeddingBag(std::int64_t rows, std::int64_t width, Generator& generator,
                           BagMode mode, bool sparse, DType dtype)
    : weight_(
          register_parameter("weight", draw_table(rows, width, generator, dtype, "EmbeddingBag"))),
      mode_(mode),
      sparse_(sparse) {}

Variable EmbeddingBag::forward(const Variable& x) {
  return embedding_bag(weight_, x.value(), mode_, sparse_);
}

std::string EmbeddingBag::spec() const {
  return concat("EmbeddingBag(", weight_.shape()[0], ", ", weight_.shape()[1], ", ",
                sparse_ ? 1 : 0, ", ", mode_ == BagMode::mean ? 1 : 0, ")");
}

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
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const auto* linear = dynamic_cast<const Linear*>(modules_[i].get());
    const bool is_pair = linear != nullptr && is_exactly<Linear>(*linear) &&
                         i + 1 < modules_.size() && is_exactly<ReLU>(*modules_[i + 1]);
    stages_.push_back({.module = modules_[i], .before_relu = is_pair ? linear : nullptr});
    if (is_pair) ++i;
  }
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (const Stage& stage : stages_)
    y = stage.before_relu != nullptr ? stage.before_relu->forward_relu(y)
                                     : stage.module->forward(y);
  return y;
}

std::string Sequential::spec() const {
  std::string text = "Sequential(";
  for (std::size_t i = 0; i < modules_.size(); ++i) text += (i ? ", " : "") + modules_[i]->spec();
  return text + ")";
}

}  // namespace shoal::autograd
