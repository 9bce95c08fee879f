#include "shoal/autograd/vision_modules.h"

#include <cmath>

#include "shoal/autograd/module_text.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
               Generator& generator, const ops::Conv2dOptions& options, DType dtype)
    : options_(options) {
  check(in_channels >= 1 && out_channels >= 1 && kernel >= 1 && options.stride >= 1 &&
            options.padding >= 0,
        ErrorKind::invalid_argument, "Conv2d", "channels ", in_channels, " and ", out_channels,
        ", kernel ", kernel, " and stride ", options.stride,
        " must be at least 1, and padding not below 0, given ", options.padding);
  const Shape shape{out_channels, in_channels, kernel, kernel};
  const std::int64_t inputs = numel({in_channels, kernel, kernel});  // of one output
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  weight_ = register_parameter("weight", Tensor::uniform(shape, -bound, bound, generator, dtype));
  bias_ =
      register_parameter("bias", Tensor::uniform({out_channels}, -bound, bound, generator, dtype));
}

Variable Conv2d::forward(const Variable& x) { return conv2d(x, weight_, bias_, options_); }

std::string Conv2d::spec() const {
  const Shape& shape = weight_.shape();
  return concat("Conv2d(", shape[1], ", ", shape[0], ", ", shape[2], ", ", options_.stride, ", ",
                options_.padding, ")");
}

MaxPool2d::MaxPool2d(std::int64_t kernel, std::int64_t stride)
    : kernel_(kernel), stride_(stride == 0 ? kernel : stride) {
  check(kernel_ >= 1 && stride_ >= 1, ErrorKind::invalid_argument, "MaxPool2d", "kernel ", kernel_,
        " and stride ", stride_, " must be at least 1");
}

Variable MaxPool2d::forward(const Variable& x) { return max_pool2d(x, kernel_, stride_); }

std::string MaxPool2d::spec() const { return concat("MaxPool2d(", kernel_, ", ", stride_, ")"); }

Dropout2d::Dropout2d(double p, Generator& generator)
    : p_(checked_probability(p, "Dropout2d")), generator_(generator.below(UINT64_MAX)) {}

Variable Dropout2d::forward(const Variable& x) {
  return is_training() && p_ > 0 ? dropout2d(x, p_, generator_) : x;
}

std::string Dropout2d::spec() const { return concat("Dropout2d(", real_text(p_), ")"); }

}  // namespace shoal::autograd
