#include "shoal/runtime/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/in_child.h"
#include "support/scratch_directory.h"

namespace shoal {
namespace {

class Log : public testing::Test {
 protected:
  void TearDown() override { set_log_callback({}); }

  // What a child that runs `body` leaves on standard error.
  template <class Body>
  [[nodiscard]] std::string standard_error_of(Body&& body) const {
    const std::string path = scratch_.file("stderr");
    EXPECT_EQ(in_child([&] {
                const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
                if (::dup2(file, STDERR_FILENO) < 0) return 1;
                body();
                return 0;
              }),
              0);
    return read_file(path);
  }

  ScratchDirectory scratch_;
};

TEST_F(Log, GoesToStandardErrorFromWarningsUpwards) {
  EXPECT_EQ(standard_error_of([] {
              log_message(LogLevel::info, "quiet");
              log_message(LogLevel::warning, "mind this");
              log_message(LogLevel::error, "broken");
            }),
            "shoal: warning: mind this\nshoal: error: broken\n");
}

TEST_F(Log, GoesToTheCallbackAloneOnceOneIsSet) {
  EXPECT_EQ(standard_error_of([] {
              std::string heard;
              set_log_callback([&](LogLevel level, std::string_view message) {
                heard += std::string(to_string(level)) + ' ' + std::string(message) + '\n';
              });
              log_message(LogLevel::info, "one");
              log_message(LogLevel::error, "two");
              if (heard != "info one\nerror two\n") throw std::runtime_error(heard);
            }),
            "");
}

TEST_F(Log, GoesBackToStandardErrorWithAnEmptyCallback) {
  EXPECT_EQ(standard_error_of([] {
              set_log_callback([](LogLevel, std::string_view) {});
              set_log_callback({});
              log_message(LogLevel::warning, "again");
            }),
            "shoal: warning: again\n");
}

TEST_F(Log, SurvivesACallbackThatThrows) {
  set_log_callback([](LogLevel, std::string_view) { throw std::runtime_error("no"); });
  log_message(LogLevel::error, "hello");
}

TEST_F(Log, MayBeUsedAndReplacedInACallback) {
  std::vector<std::string> heard;
  set_log_callback([&](LogLevel level, std::string_view message) {
    heard.emplace_back(message);
    if (heard.size() == 1) log_message(level, "second");
    if (heard.size() == 2) set_log_callback([](LogLevel, std::string_view) {});
  });
  log_message(LogLevel::info, "first");
  log_message(LogLevel::info, "third");
  EXPECT_EQ(heard, (std::vector<std::string>{"first", "second"}));
}

TEST_F(Log, LosesNothingWhileThreadsLogAndReplaceIt) {
  constexpr int kThreads = 4, kMessages = 200;
  std::atomic<int> heard{0};
  const auto listen = [&] { set_log_callback([&](LogLevel, std::string_view) { ++heard; }); };
  listen();
  std::vector<std::thread> threads(kThreads);
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int message = 0; message < kMessages; ++message) {
        log_message(LogLevel::info, "x");
        if (message % 10 == 0) listen();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heard, kThreads * kMessages);
}

}  // namespace
}  // namespace shoal
