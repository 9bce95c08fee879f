#include "shoal/tools/shoal_train/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace shoal::tools {
namespace {

double rate_of(const optim::TrainReport& report) {
  return static_cast<double>(report.samples) / report.seconds;
}

}  // namespace

std::string to_json(const TrainCommand& command, const optim::TrainReport& report,
                    double test_accuracy) {
  // Ordered, so that the line reads the same every time.
  nlohmann::ordered_json json;
  const bool processes = command.mode == Mode::hogwild;
  json["mode"] = to_string(command.mode);
  json["workers"] = command.training.workers;
  // One process shares with nobody and starts nobody.
  json["strategy"] = nullptr;
  json["start_method"] = nullptr;
  if (processes) {
    json["strategy"] = to_string(command.training.strategy);
    json["start_method"] = to_string(command.training.start_method);
  }
  json["epochs"] = command.training.epochs;
  json["samples"] = report.samples;
  json["seconds"] = report.seconds;
  json["samples_per_second"] = rate_of(report);
  json["train_loss"] = report.epoch_losses.back();
  json["test_accuracy"] = test_accuracy;
  json["seed"] = command.training.seed;
  return json.dump();
}

std::string to_text(const TrainCommand& command, const optim::TrainReport& report,
                    double test_accuracy) {
  char text[200];
  std::snprintf(text, sizeof text,
                "%s, %d worker%s: %lld samples in %.1f s (%.0f samples/s), train loss %.4f, test "
                "accuracy %.4f",
                to_string(command.mode).c_str(), command.training.workers,
                command.training.workers == 1 ? "" : "s", static_cast<long long>(report.samples),
                report.seconds, rate_of(report), report.epoch_losses.back(), test_accuracy);
  return text;
}

}  // namespace shoal::tools
