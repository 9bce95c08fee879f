#pragma once

#include <string>

#include "shoal/optim/dataset.h"

namespace shoal::tools {

inline constexpr std::int64_t kClasses = 10;

struct Mnist {
  optim::Dataset train;
  optim::Dataset test;
  std::int64_t height = 0, width = 0;  // of an image, in pixels
};

// Reads a folder of the MNIST family: {train,t10k}-images-idx3-ubyte and
// {train,t10k}-labels-idx1-ubyte, each plain or with .gz. Images stay u8, as (N, 1, height,
// width), to be scaled to [0, 1] batch by batch. Throws Error naming the file: missing, malformed,
// not of u8 or of another rank, a label that is no class, images and labels of different number,
// test images of another size than the training ones.
[[nodiscard]] Mnist load_mnist(const std::string& folder);

}  // namespace shoal::tools
