#include "shoal/runtime/shm/descriptor_limit.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "shoal/runtime/base/log.h"

namespace shoal {
namespace {

rlim_t soft_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

void limit_to(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::_Exit(98);
}

// Messages go to standard error, where the tests look for them.
void listen() {
  set_log_callback([](LogLevel level, std::string_view message) {
    std::fprintf(stderr, "<%s: %s>\n", std::string(to_string(level)).c_str(),
                 std::string(message).c_str());
  });
}

#define REQUIRE(condition) \
  if (!(condition)) std::fprintf(stderr, "%s\n", #condition), std::_Exit(1)

// Each in a process of its own, started afresh: the limit is raised once in a process.
class DescriptorLimit : public testing::Test {
 protected:
  DescriptorLimit() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ::unsetenv("SHOAL_RAISE_NOFILE");
  }
  const testing::ExitedWithCode succeeds_{0};
};

TEST_F(DescriptorLimit, IsRaisedToTheHardLimitAndSaysSo) {
  const auto body = [] {
    listen();
    limit_to(60, 100);
    const DescriptorLimitChange change = raise_descriptor_limit();
    REQUIRE(change.was == 60 && change.is == 100 && change.hard == 100);
    REQUIRE(soft_limit() == 100);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), succeeds_, "<info: raised .* from 60 to 100.*SHOAL_RAISE_NOFILE=0");
}

TEST_F(DescriptorLimit, IsRaisedOnlyOnce) {
  const auto body = [] {
    limit_to(60, 100);
    (void)raise_descriptor_limit();
    limit_to(70, 100);
    const DescriptorLimitChange change = raise_descriptor_limit();
    REQUIRE(change.was == 70 && change.is == 70 && soft_limit() == 70);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), succeeds_, "");
}

TEST_F(DescriptorLimit, ThatIsHighEnoughIsLeftWithoutAWord) {
  const auto body = [] {
    listen();
    limit_to(100, 100);
    const DescriptorLimitChange change = raise_descriptor_limit();
    REQUIRE(change.was == 100 && change.is == 100);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), succeeds_, "^$");
}

TEST_F(DescriptorLimit, IsLeftAloneOnRequest) {
  const auto body = [] {
    ::setenv("SHOAL_RAISE_NOFILE", "0", 1);
    limit_to(60, 100);
    REQUIRE(raise_descriptor_limit().is == 60 && soft_limit() == 60);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), succeeds_, "");
}

TEST_F(DescriptorLimit, IsNeverLoweredNorRaisedBeyondReason) {
  const auto body = [] {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const DescriptorLimitChange change = raise_descriptor_limit();
    REQUIRE(change.is >= before.rlim_cur && change.is <= change.hard);
    REQUIRE(change.is <= std::max<rlim_t>(before.rlim_cur, 1'048'576));
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), succeeds_, "");
}

TEST_F(DescriptorLimit, IsRaisedForAllThreadsThatAskAtOnceAndToldOnce) {
  const auto body = [] {
    static std::atomic<int> told{0};
    set_log_callback([](LogLevel, std::string_view) { ++told; });
    limit_to(60, 100);
    std::vector<std::thread> threads(8);
    for (std::thread& thread : threads)
      thread = std::thread([] { REQUIRE(raise_descriptor_limit().is == 100); });
    for (std::thread& thread : threads) thread.join();
    REQUIRE(told == 1);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), succeeds_, "");
}

}  // namespace
}  // namespace shoal
