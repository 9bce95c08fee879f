#include "shoal/runtime/shm/sharing_strategy.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

// What a process started with `value` in its environment says of its strategy. Runs in a process
// of its own, since the variable is read once.
[[noreturn]] void tell_strategy(
    const char* value, void (*before)() = [] {}) {
  if (value != nullptr) {
    ::setenv("SHOAL_SHARING_STRATEGY", value, 1);
  } else {
    ::unsetenv("SHOAL_SHARING_STRATEGY");
  }
  int status = 1;
  try {
    before();
    const auto strategy = get_sharing_strategy();
    ::setenv("SHOAL_SHARING_STRATEGY", "changed later", 1);
    if (get_sharing_strategy() == strategy) status = 0;
    std::fprintf(stderr, "<%s>\n", std::string(to_string(strategy)).c_str());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_argument) status = 3;
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::_Exit(status);
}

class StrategyOfEnvironment : public testing::Test {
 protected:
  // Executes this program again, so that nothing has been read yet.
  StrategyOfEnvironment() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StrategyOfEnvironment, IsTakenAtFirstUse) {
  const auto succeeds = testing::ExitedWithCode(0);
  EXPECT_EXIT(tell_strategy("file_system"), succeeds, "<file_system>");
  EXPECT_EXIT(tell_strategy("file_descriptor"), succeeds, "<file_descriptor>");
  EXPECT_EXIT(tell_strategy(""), succeeds, "<file_descriptor>");
  EXPECT_EXIT(tell_strategy(nullptr), succeeds, "<file_descriptor>");
}

TEST_F(StrategyOfEnvironment, ThatIsWrongIsRefusedNamingVariableValueAndChoices) {
  EXPECT_EXIT(tell_strategy("telepathy"), testing::ExitedWithCode(3),
              "SHOAL_SHARING_STRATEGY: 'telepathy'.*file_descriptor or file_system");
  EXPECT_EXIT(tell_strategy("file_system "), testing::ExitedWithCode(3), "'file_system '");
}

TEST_F(StrategyOfEnvironment, GivesWayToWhatIsSet) {
  const auto set = [] { set_sharing_strategy(SharingStrategy::file_descriptor); };
  EXPECT_EXIT(tell_strategy("file_system", set), testing::ExitedWithCode(0), "<file_descriptor>");
  EXPECT_EXIT(tell_strategy("telepathy", set), testing::ExitedWithCode(0), "<file_descriptor>");
}

TEST_F(StrategyOfEnvironment, IsTheSameForThreadsThatAskAtOnce) {
  const auto ask = [] {
    std::vector<std::thread> threads(4);
    for (std::thread& thread : threads) {
      thread = std::thread([] {
        if (get_sharing_strategy() != SharingStrategy::file_system) std::_Exit(7);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  EXPECT_EXIT(tell_strategy("file_system", ask), testing::ExitedWithCode(0), "<file_system>");
}

TEST(SharingStrategies, ParseTheirOwnNamesAndNoOthers) {
  for (const SharingStrategy strategy : get_all_sharing_strategies())
    EXPECT_EQ(parse_sharing_strategy(to_string(strategy)), strategy);
  for (const char* name : {"", "file", "File_system"})
    EXPECT_THROW((void)parse_sharing_strategy(name), Error) << name;
}

}  // namespace
}  // namespace shoal
