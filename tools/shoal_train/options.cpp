#include "shoal/tools/shoal_train/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <thread>

#include "shoal/runtime/base/version.h"

namespace shoal::tools {
namespace {

constexpr int kExitUsage = 2;

// A finite number of at least `low`; `above` leaves `low` itself out.
CLI::Validator number_from(double low, bool above, const std::string& wanted) {
  return {[=](std::string& text) {
            double value = 0;
            const bool ok = CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
                            (above ? value > low : value >= low);
            return ok ? std::string() : text + " is not " + wanted;
          },
          "", "number"};
}

int default_workers() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

std::string to_string(Mode mode) { return mode == Mode::single ? "single" : "hogwild"; }

std::optional<TrainCommand> parse_command(int argc, char** argv, int& exit_code) {
  TrainCommand command;
  command.training.workers = default_workers();
  command.training.epochs = 5;
  command.training.batch_size = 64;
  command.training.sgd.lr = 0.2;
  command.training.lr_final = 0.05;
  std::string mode = "single", model = "mlp", strategy(to_string(get_sharing_strategy())),
              start_method = "spawn";

  CLI::App app(
      "Trains a classifier on a data set of the MNIST family, alone or from many processes that "
      "share one model.\nExit codes: 0 trained, 1 failed, 2 wrong arguments.",
      "shoal-train");
  app.set_version_flag("--version", "shoal-train " + std::string(kVersion));
  // A script that brings its own options can be given others after them.
  app.option_defaults()->always_capture_default()->take_last();
  const auto count = CLI::Range(1, 1'000'000'000).description("at least 1");
  const auto positive = number_from(0, true, "a number above 0");
  const auto not_negative = number_from(0, false, "a number of at least 0");

  app.add_option(
         "--data", command.data,
         "Folder with train- and t10k-images-idx3-ubyte and -labels-idx1-ubyte, plain or .gz")
      ->required()
      ->option_text("DIR");
  app.add_option("--mode", mode, "single: this process; hogwild: many, without locks")
      ->check(CLI::IsMember({"single", "hogwild"}));
  app.add_option("--workers", command.training.workers, "Processes (hogwild)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--model", model,
                 "mlp: pixels, hidden ReLU units, 10 classes; cnn: two convolutions with pooling "
                 "before them")
      ->check(CLI::IsMember({"mlp", "cnn"}));
  app.add_option("--hidden", command.hidden, "Hidden units")->check(CLI::Range(1, 1'000'000));
  app.add_option("--epochs", command.training.epochs, "Passes over the training samples")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--batch", command.training.batch_size, "Samples a step")->check(count);
  app.add_option("--lr", command.training.sgd.lr, "Learning rate")->check(positive);
  app.add_option("--lr-final", command.training.lr_final,
                 "Fraction of --lr that is left at the end; it falls linearly")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--momentum", command.training.sgd.momentum, "Momentum, private to each worker")
      ->check(not_negative);
  app.add_option("--strategy", strategy, "How memory is shared (hogwild)")
      ->check(CLI::IsMember({"file_descriptor", "file_system"}));
  app.add_option("--start-method", start_method, "How workers are started (hogwild)")
      ->check(CLI::IsMember({"spawn", "fork", "forkserver"}));
  app.add_option("--seed", command.training.seed, "Of initial parameters and order of samples");
  app.add_option("--limit", command.limit, "Use only the first N training samples")
      ->check(count)
      ->option_text("N");
  app.add_option("--load", command.load, "Start from the parameters in this safetensors file")
      ->option_text("FILE");
  app.add_option("--save", command.save, "Write the trained parameters to this safetensors file")
      ->option_text("FILE");
  app.add_flag("--json", command.json, "End with one line of JSON on standard output");
  app.add_flag("--quiet", command.quiet, "No progress");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error, std::cout, std::cerr) == 0 ? 0 : kExitUsage;
    return std::nullopt;
  }
  command.model = model == "mlp" ? Model::mlp : Model::cnn;
  command.mode = mode == "single" ? Mode::single : Mode::hogwild;
  command.training.strategy = parse_sharing_strategy(strategy);
  command.training.start_method = parse_start_method(start_method);
  if (command.mode == Mode::single) command.training.workers = 1;
  return command;
}

}  // namespace shoal::tools
