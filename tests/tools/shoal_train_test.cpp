#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "support/program.h"
#include "tools/tiny_mnist.h"

// The program as a person runs it, on a data set small enough to learn in a moment.
namespace shoal {
namespace {

constexpr double kSoon = 60;

class ShoalTrain : public testing::Test {
 protected:
  // `--data` of the tiny set is added unless the arguments bring their own.
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), SHOAL_TRAIN);
    if (std::ranges::find(arguments, "--data") == arguments.end()) {
      arguments.insert(arguments.end(), {"--data", data_.path()});
    }
    return arguments;
  }

  // The last line of its standard output, as JSON.
  static nlohmann::json last_line(const Program& program) {
    const std::string out = program.out();
    const auto end = out.find_last_not_of('\n');
    const auto start = out.rfind('\n', end);
    return nlohmann::json::parse(out.substr(start == std::string::npos ? 0 : start + 1));
  }

  // Fails with `code`, and the message holds each of `words`.
  void expect_refusal(const std::vector<std::string>& arguments, int code,
                      const std::vector<std::string>& words) const {
    Program program(command(arguments));
    EXPECT_EQ(program.wait(in_seconds(kSoon)), code);
    for (const std::string& word : words)
      EXPECT_NE(program.err().find(word), std::string::npos) << word << " in\n" << program.err();
    EXPECT_EQ(program.out(), "");
  }

  TinyMnist data_;
};

TEST_F(ShoalTrain, EveryModeStrategyAndStartMethodLearns) {
  std::vector<std::vector<std::string>> variants{{"--mode", "single"}};
  for (const char* strategy : {"file_descriptor", "file_system"})
    for (const char* method : {"spawn", "fork", "forkserver"})
      variants.push_back({"--mode", "hogwild", "--workers", "2", "--strategy", strategy,
                          "--start-method", method});
  for (std::vector<std::string>& variant : variants) {
    const std::string shown = testing::PrintToString(variant);
    variant.insert(variant.end(), {"--epochs", "40", "--json", "--seed", "3"});
    Program program(command(variant));
    ASSERT_EQ(program.wait(in_seconds(kSoon)), 0) << shown << program.err();
    const auto json = last_line(program);
    EXPECT_EQ(json["samples"], 40 * TinyMnist::kSamples) << shown;
    EXPECT_GT(json["test_accuracy"], 0.95) << shown;
    std::set<std::string> keys;
    for (const auto& [key, value] : json.items()) keys.insert(key);
    EXPECT_EQ(keys, (std::set<std::string>{"mode", "workers", "strategy", "start_method", "epochs",
                                           "samples", "seconds", "samples_per_second", "train_loss",
                                           "test_accuracy", "seed"}));
  }
}

TEST_F(ShoalTrain, SavesWhatItCanLoadAgain) {
  const std::string saved = data_.file("model.safetensors");
  Program first(command({"--epochs", "40", "--save", saved, "--json"}));
  ASSERT_EQ(first.wait(in_seconds(kSoon)), 0) << first.err();
  // A step this small changes nothing, so what was loaded is what is tested.
  Program second(command({"--epochs", "1", "--lr", "1e-9", "--load", saved, "--json"}));
  ASSERT_EQ(second.wait(in_seconds(kSoon)), 0) << second.err();
  EXPECT_EQ(last_line(first)["test_accuracy"], last_line(second)["test_accuracy"]);
  EXPECT_GT(last_line(second)["test_accuracy"], 0.95);
}

TEST_F(ShoalTrain, RunsAgainBitForBitInOneProcess) {
  std::vector<std::string> files;
  for (const char* name : {"a", "b"}) {
    files.push_back(data_.file(name));
    Program program(command({"--epochs", "3", "--seed", "9", "--save", files.back(), "--quiet"}));
    ASSERT_EQ(program.wait(in_seconds(kSoon)), 0) << program.err();
    EXPECT_EQ(program.out() + program.err(), "") << "quiet";
  }
  const auto read = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(read(files[0]), read(files[1]));
}

TEST_F(ShoalTrain, HelpAndVersionSucceed) {
  for (const char* option : {"--help", "--version"}) {
    Program program({SHOAL_TRAIN, option});
    EXPECT_EQ(program.wait(in_seconds(kSoon)), 0);
    EXPECT_NE(program.out().find("shoal-train"), std::string::npos);
  }
}

TEST_F(ShoalTrain, WrongArgumentsAreUsageErrors) {
  expect_refusal({"--epochs", "0"}, 2, {"--epochs"});
  expect_refusal({"--lr", "-0.1"}, 2, {"--lr", "above 0"});
  expect_refusal({"--lr", "nan"}, 2, {"--lr"});
  expect_refusal({"--strategy", "telepathy"}, 2, {"--strategy", "file_descriptor"});
  expect_refusal({"--start-method", "beam"}, 2, {"--start-method", "spawn"});
  expect_refusal({"--mode", "single", "--no-such-option"}, 2, {"--no-such-option"});
  Program without_data({SHOAL_TRAIN});
  EXPECT_EQ(without_data.wait(in_seconds(kSoon)), 2);
}

TEST_F(ShoalTrain, AMissingFolderOrFileIsNamed) {
  expect_refusal({"--data", "/no/such/folder"}, 1, {"/no/such/folder", "no such folder"});
  std::filesystem::remove(data_.file("t10k-labels-idx1-ubyte"));
  expect_refusal({}, 1, {"t10k-labels-idx1-ubyte", "no such file"});
}

TEST_F(ShoalTrain, DamagedDataAreRefusedNamingTheFile) {
  const std::string name = "train-images-idx3-ubyte", path = data_.file(name);
  const std::vector<std::uint8_t> pixels(400 * 16, 1);
  const std::string good = idx_bytes({400, 4, 4}, pixels);
  write_file(path, good.substr(0, good.size() - 1));
  expect_refusal({}, 1, {name});
  write_file(path, good + "x");
  expect_refusal({}, 1, {name});
  write_file(path, "JPEG" + good);
  expect_refusal({}, 1, {name});
  write_file(path, idx_bytes({399, 4, 4}, std::vector<std::uint8_t>(399 * 16, 1)));
  expect_refusal({}, 1, {name, "[399, 4, 4]", "400 labels"});
  write_file(path, good);
  std::vector<std::uint8_t> labels(400, 3);
  labels[17] = 10;
  write_file(data_.file("train-labels-idx1-ubyte"), idx_bytes({400}, labels));
  expect_refusal({}, 1, {"train-labels-idx1-ubyte", "label 10 of sample 17"});
}

TEST_F(ShoalTrain, UnusableModelFilesAreRefusedBeforeTraining) {
  const std::string path = data_.file("broken.safetensors");
  expect_refusal({"--load", path}, 1, {path});
  write_file(path, "not a model at all");
  expect_refusal({"--load", path}, 1, {path});
  expect_refusal({"--save", "/no/such/folder/model"}, 1, {"/no/such/folder"});
  expect_refusal({"--save", data_.path()}, 1, {data_.path()});
  // Of another shape than the model.
  Program narrow(command({"--epochs", "1", "--hidden", "3", "--save", path, "--quiet"}));
  ASSERT_EQ(narrow.wait(in_seconds(kSoon)), 0);
  expect_refusal({"--load", path}, 1, {"0.weight", "--hidden"});
}

TEST_F(ShoalTrain, ADivergedTrainingFailsAndSavesNothing) {
  const std::string path = data_.file("diverged");
  expect_refusal({"--lr", "1e30", "--save", path, "--quiet"}, 1, {"diverged", "--lr"});
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace shoal
