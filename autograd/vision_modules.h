#pragma once

#include <string>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/module.h"
#include "shoal/runtime/tensor/random.h"

// Modules for images x(n,c,h,w).
namespace shoal::autograd {

// conv2d of a square kernel, with weight(out,in,kernel,kernel) and bias(out). Both start uniform in
// ±1/sqrt(in kernel^2), the field's default. Throws Error(invalid_argument) for sizes below 1.
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         Generator& generator, const ops::Conv2dOptions& options = {}, DType dtype = DType::f32);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  ops::Conv2dOptions options_;
  Variable weight_, bias_;
};

// The largest of each window; stride 0: the kernel's size.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(std::int64_t kernel, std::int64_t stride = 0);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  std::int64_t kernel_, stride_;
};

// As Dropout (modules.h), for whole channels of an image.
class Dropout2d : public Module {
 public:
  Dropout2d(double p, Generator& generator);
  [[nodiscard]] Variable forward(const Variable& x) override;
  [[nodiscard]] std::string spec() const override;

 private:
  double p_;
  Generator generator_;
};

}  // namespace shoal::autograd
