#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/module.h"
#include "shoal/runtime/tensor/random.h"

namespace shoal::autograd {

// y(n,out) = x(n,in) weight(out,in)^T + bias(out). Both start uniform in ±1/sqrt(in), the field's
// default (kaiming_uniform with a = sqrt 5). Throws Error(invalid_argument) for sizes below 1.
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, Generator& generator,
         DType dtype = DType::f32);
  [[nodiscard]] Variable forward(const Variable& x) override;
  // relu(forward(x)), in fewer passes.
  [[nodiscard]] Variable forward_relu(const Variable& x) const;
  [[nodiscard]] std::string spec() const override;

 private:
  std::int64_t in_features_, out_features_;
  Variable weight_, bias_;
};

// max(0, x)
class ReLU : public Module {
 public:
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;
};

// 1 / (1 + exp(-x))
class Sigmoid : public Module {
 public:
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;
};

class Tanh : public Module {
 public:
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;
};

// Zeroes each element with probability p while training, and scales the rest by 1 / (1 - p);
// otherwise what comes in goes out. It draws from a generator of its own, whose seed is drawn from
// the one given. Throws Error(invalid_argument) for p outside [0, 1).
class Dropout : public Module {
 public:
  Dropout(double p, Generator& generator);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  double p_;
  Generator generator_;
};

// A table weight(v,d), drawn from the standard normal distribution; forward takes rows by i64
// indices, which are the value of x: (…) to (…,d). `sparse` as in functions.h. Throws
// Error(invalid_argument) for sizes below 1.
class Embedding : public Module {
 public:
  Embedding(std::int64_t rows, std::int64_t width, Generator& generator, bool sparse = false,
            DType dtype = DType::f32);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  Variable weight_;
  bool sparse_;
};

// The same for bags of indices: (b,n) to their (b,d) sums or means.
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(std::int64_t rows, std::int64_t width, Generator& generator,
               BagMode mode = BagMode::mean, bool sparse = false, DType dtype = DType::f32);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  Variable weight_;
  BagMode mode_;
  bool sparse_;
};

// (n, …) to (n, rest).
class Flatten : public Module {
 public:
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;
};

// One after the other; submodules are named "0", "1", … A Linear and the ReLU behind it are done in
// one function.
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<std::shared_ptr<Module>> modules);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  struct Stage {
    std::shared_ptr<Module> module;
    const Linear* before_relu = nullptr;  // a Linear, where the stage is both
  };
  std::vector<std::shared_ptr<Module>> modules_;
  std::vector<Stage> stages_;
};

}  // namespace shoal::autograd
