#include "shoal/tools/shoal_train/mnist.h"

#include <algorithm>
#include <filesystem>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/io/idx.h"

namespace shoal::tools {
namespace {

namespace fs = std::filesystem;

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string plain = (fs::path(folder) / name).string();
  std::error_code ignored;
  for (const std::string& path : {plain, plain + ".gz"})
    if (fs::exists(path, ignored)) return path;
  throw Error({.kind = ErrorKind::not_found,
               .call = "load_mnist",
               .subject = plain + "[.gz]",
               .reason = "no such file",
               .remedy = "--data takes a folder with the four files of the MNIST family"});
}

Tensor read_bytes(const std::string& path, int rank) {
  Tensor tensor = read_idx(path);
  if (tensor.dtype() != DType::u8 || tensor.rank() != rank) {
    throw Error({.kind = ErrorKind::malformed,
                 .call = "load_mnist",
                 .subject = path,
                 .reason = concat("holds ", to_string(tensor.dtype()), " ", tensor.shape(),
                                  ", not u8 of rank ", rank)});
  }
  return tensor;
}

void check_labels(const std::string& path, const Tensor& labels) {
  const auto values = labels.span<std::uint8_t>();
  const auto bad = std::ranges::find_if(values, [](std::uint8_t v) { return v >= kClasses; });
  if (bad == values.end()) return;
  throw Error({.kind = ErrorKind::malformed,
               .call = "load_mnist",
               .subject = path,
               .reason = concat("label ", int{*bad}, " of sample ", bad - values.begin(),
                                " is no class; classes are 0 to ", kClasses - 1)});
}

optim::Dataset load_part(const std::string& folder, const std::string& part) {
  const std::string image_path = find_file(folder, part + "-images-idx3-ubyte");
  const std::string label_path = find_file(folder, part + "-labels-idx1-ubyte");
  const Tensor labels = read_bytes(label_path, 1);
  check_labels(label_path, labels);
  const Tensor images = read_bytes(image_path, 3);
  if (images.size(0) != labels.size(0) || images.numel() == 0) {
    throw Error({.kind = ErrorKind::malformed,
                 .call = "load_mnist",
                 .subject = image_path,
                 .reason = concat("holds images of shape ", images.shape(), " for ", labels.size(0),
                                  " labels")});
  }
  return {.inputs = images.reshape({images.size(0), 1, images.size(1), images.size(2)}),
          .targets = labels.to(DType::i64),
          .scale = 1.0 / 255,
          .shift = 0};
}

}  // namespace

Mnist load_mnist(const std::string& folder) {
  if (!fs::is_directory(folder)) {
    throw Error({.kind = ErrorKind::not_found,
                 .call = "load_mnist",
                 .subject = folder,
                 .reason = "no such folder",
                 .remedy = "On Debian, `apt install dataset-fashion-mnist` puts one into "
                           "/usr/share/datasets/fashion-mnist"});
  }
  Mnist mnist{.train = load_part(folder, "train"), .test = load_part(folder, "t10k")};
  mnist.height = mnist.train.inputs.size(2);
  mnist.width = mnist.train.inputs.size(3);
  check(mnist.test.inputs.size(2) == mnist.height && mnist.test.inputs.size(3) == mnist.width,
        ErrorKind::malformed, "load_mnist", folder, ": training images are ", mnist.height, " by ",
        mnist.width, " pixels, test images ", mnist.test.inputs.size(2), " by ",
        mnist.test.inputs.size(3));
  return mnist;
}

}  // namespace shoal::tools
