#include "shoal/runtime/shm/budget_credit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace shoal {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr BudgetCredit::Time kNow(std::chrono::hours(1));

TEST(BudgetCredit, IsNoneBeforeALook) {
  BudgetCredit credit;
  EXPECT_FALSE(credit.take(1, kNow));
}

TEST(BudgetCredit, IsASmallPartOfTheRoom) {
  BudgetCredit credit;
  credit.grant(BudgetCredit::kShare * 100, kNow);
  EXPECT_TRUE(credit.take(60, kNow));
  EXPECT_TRUE(credit.take(40, kNow));
  EXPECT_FALSE(credit.take(1, kNow));
  credit.grant(BudgetCredit::kShare - 1, kNow);
  EXPECT_FALSE(credit.take(1, kNow));
}

TEST(BudgetCredit, IsNeverMoreThanItsMost) {
  BudgetCredit credit;
  credit.grant(UINT64_MAX, kNow);
  for (std::uint64_t taken = 0; taken < BudgetCredit::kMost; taken += kMiB)
    EXPECT_TRUE(credit.take(kMiB, kNow));
  EXPECT_FALSE(credit.take(1, kNow));
}

TEST(BudgetCredit, IsForSmallSegments) {
  BudgetCredit credit;
  credit.grant(UINT64_MAX, kNow);
  EXPECT_FALSE(credit.take(BudgetCredit::kMostAtOnce + 1, kNow));
  EXPECT_TRUE(credit.take(BudgetCredit::kMostAtOnce, kNow));
}

TEST(BudgetCredit, Ages) {
  BudgetCredit credit;
  credit.grant(UINT64_MAX, kNow);
  EXPECT_TRUE(credit.take(1, kNow + BudgetCredit::kLasts - 1ns));
  EXPECT_FALSE(credit.take(1, kNow + BudgetCredit::kLasts));
}

TEST(BudgetCredit, IsGivenOnceOnlyToManyThreads) {
  BudgetCredit credit;
  credit.grant(1000 * BudgetCredit::kShare, kNow);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) taken += credit.take(1, kNow);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 1000);
}

}  // namespace
}  // namespace shoal
