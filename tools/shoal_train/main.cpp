#include <unistd.h>

#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>

#include "shoal/autograd/module_spec.h"
#include "shoal/optim/evaluate.h"
#include "shoal/optim/train_hogwild.h"
#include "shoal/optim/train_single.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/version.h"
#include "shoal/runtime/io/safetensors.h"
#include "shoal/tools/shoal_train/mnist.h"
#include "shoal/tools/shoal_train/options.h"
#include "shoal/tools/shoal_train/progress.h"
#include "shoal/tools/shoal_train/report.h"

namespace shoal::tools {
namespace {

std::string model_spec(const TrainCommand& command, const Mnist& mnist) {
  const std::int64_t hidden = command.hidden;
  if (command.model == Model::mlp) {
    return concat("Sequential(Linear(", mnist.height * mnist.width, ", ", hidden,
                  "), ReLU(), Linear(", hidden, ", ", kClasses, "))");
  }
  // Each convolution keeps the size, each pooling halves it.
  check(mnist.height >= 4 && mnist.width >= 4, ErrorKind::invalid_argument, "--model cnn",
        "images of ", mnist.height, " by ", mnist.width, " pixels are too small to pool twice");
  const std::int64_t pooled = 32 * (mnist.height / 2 / 2) * (mnist.width / 2 / 2);
  return concat(
      "Sequential(Conv2d(1, 16, 5, 1, 2), MaxPool2d(2), ReLU(), "
      "Conv2d(16, 32, 5, 1, 2), MaxPool2d(2), ReLU(), Flatten(), Linear(",
      pooled, ", ", hidden, "), ReLU(), Linear(", hidden, ", ", kClasses, "))");
}

std::shared_ptr<autograd::Module> make_model(const TrainCommand& command, const Mnist& mnist) {
  Generator generator(command.training.seed);
  return autograd::make_module(model_spec(command, mnist), generator);
}

void load(autograd::Module& model, const std::string& path) {
  const TensorFile file = load_safetensors(path);
  try {
    model.load_state_dict(file.tensors);
  } catch (const Error& error) {
    throw Error({.kind = error.kind(),
                 .call = "--load",
                 .subject = path,
                 .reason = error.what(),
                 .remedy = "--model and --hidden must be what the file was trained with"});
  }
}

void save(const autograd::Module& model, const std::string& path) {
  save_safetensors(path, {.tensors = model.state_dict(),
                          .metadata = {{"model", model.spec()}, {"shoal", std::string(kVersion)}}});
}

// Whether the result can be saved is better known before training than after: a file of the same
// size is written beside it and removed again.
void rehearse_save(const autograd::Module& model, const std::string& path) {
  if (std::filesystem::path(path).filename().empty() || std::filesystem::is_directory(path)) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "--save",
                 .subject = path,
                 .reason = "names no file",
                 .remedy = "Name a file inside the folder"});
  }
  const std::string rehearsal = concat(path, ".", ::getpid(), ".rehearsal");
  try {
    save(model, rehearsal);
  } catch (const Error& error) {
    throw Error({.kind = error.kind(), .call = "--save", .subject = path, .reason = error.what()});
  }
  ::unlink(rehearsal.c_str());
}

int run(const TrainCommand& command) {
  Progress progress(command.quiet);
  Mnist mnist = load_mnist(command.data);
  if (command.limit > 0) mnist.train = mnist.train.first(command.limit);
  // The mlp takes pixels side by side, the cnn images of one channel.
  if (command.model == Model::mlp)
    for (optim::Dataset* part : {&mnist.train, &mnist.test})
      part->inputs = part->inputs.reshape({part->size(), mnist.height * mnist.width});
  const auto model = make_model(command, mnist);
  if (!command.load.empty()) load(*model, command.load);
  if (!command.save.empty()) rehearse_save(*model, command.save);
  progress.say(concat(model->spec(), ", ", model->parameter_count(), " parameters, ",
                      mnist.train.size(), " samples"));

  const optim::TrainObserver observer = [&](const optim::TrainProgress& now) {
    progress.show(now, command.training.epochs);
  };
  const optim::TrainReport report =
      command.mode == Mode::single
          ? optim::train_single(*model, mnist.train, command.training, observer)
          : optim::train_hogwild(*model, mnist.train, command.training, observer);
  if (!std::isfinite(report.epoch_losses.back())) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "shoal-train",
                 .reason = "training diverged: the loss is no longer a number",
                 .remedy = "Choose a smaller --lr"});
  }
  const double accuracy = optim::accuracy(*model, mnist.test);
  progress.say(to_text(command, report, accuracy));
  if (command.json) std::cout << to_json(command, report, accuracy) << std::endl;
  if (!command.save.empty()) save(*model, command.save);
  check(std::cout.good(), ErrorKind::system, "write", "standard output took no result");
  return 0;
}

}  // namespace
}  // namespace shoal::tools

int main(int argc, char** argv) {
  shoal::child_main(argc, argv);
  try {
    int exit_code = 0;
    const auto command = shoal::tools::parse_command(argc, argv, exit_code);
    return command ? shoal::tools::run(*command) : exit_code;
  } catch (const std::exception& error) {
    std::cerr << "shoal-train: " << error.what() << std::endl;
    return 1;
  }
}
