#pragma once

#include <memory>
#include <string>
#include <vector>

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

// (n, …) to (n, rest).
class Flatten : public Module {
 public:
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;
};

// One after the other; submodules are named "0", "1", …
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<std::shared_ptr<Module>> modules);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};

}  // namespace shoal::autograd
