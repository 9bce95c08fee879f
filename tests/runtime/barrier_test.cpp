#include "shoal/runtime/ipc/barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/expect_error.h"
#include "support/peer.h"
#include "support/strategies.h"
#include "support/words.h"

// Barriers between threads.
namespace shoal {
namespace {

using test::kSoon;

class BarrierUnder : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, BarrierUnder, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

void for_each_rank(int world_size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(world_size);
  for (int rank = 0; rank < world_size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

std::string why_broken(Barrier& barrier, int rank, Deadline deadline = in_seconds(kSoon)) {
  try {
    barrier.wait(rank, deadline);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(BarrierUnder, EverybodySeesWhatEverybodyWrote) {
  constexpr int kWorld = 4, kRounds = 500;
  Barrier barrier(kWorld);
  EXPECT_EQ(barrier.world_size(), kWorld);
  std::vector<int> board(kWorld, -1);  // plain memory: the barrier alone orders it
  std::atomic<int> wrong = 0;
  for_each_rank(kWorld, [&](int rank) {
    for (int round = 0; round < kRounds; ++round) {
      board[static_cast<std::size_t>(rank)] = round;
      barrier.wait(rank, in_seconds(kSoon));
      for (const int cell : board) wrong += cell != round;
      barrier.wait(rank, in_seconds(kSoon));
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(barrier.arrived(), 0);
}

TEST_P(BarrierUnder, OneRankWaitsForNobody) {
  Barrier barrier(1);
  for (int i = 0; i < 10; ++i) barrier.wait(0);
  barrier.wait(0, in_ms(0));
}

TEST_P(BarrierUnder, ADeadlineNamesAllMissingRanksToEveryone) {
  Barrier barrier(4);
  std::string other;
  std::thread waiter([&] { other = why_broken(barrier, 2); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  expect_error(
      ErrorKind::timed_out, [&] { barrier.wait(1, in_ms(5)); }, "ranks 0, 3 have not",
      "deadline of rank 1");
  waiter.join();
  EXPECT_EQ(other, why_broken(barrier, 0)) << "one who comes later hears the same";
  EXPECT_TRUE(barrier.is_broken());
}

TEST_P(BarrierUnder, ADeadlineThatHasPassedStillLetsTheLastThrough) {
  Barrier barrier(2);
  std::thread waiter([&] { barrier.wait(0, in_seconds(kSoon)); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  barrier.wait(1, in_ms(0));
  waiter.join();
  EXPECT_FALSE(barrier.is_broken());
}

TEST_P(BarrierUnder, ManyMissingRanksFitTheMessage) {
  Barrier barrier(Barrier::kMaxWorldSize);
  expect_error(
      ErrorKind::timed_out, [&] { barrier.wait(3, in_ms(1)); }, "ranks 0, 1, 2, 4, 5",
      "more have not arrived");
}

TEST_P(BarrierUnder, PoisonTellsAllWhoFailedAndWhy) {
  Barrier barrier(3);
  std::string first;
  std::thread waiter([&] { first = why_broken(barrier, 0); });
  barrier.poison(2, "loss is NaN");
  waiter.join();
  EXPECT_NE(first.find("rank 2 failed: loss is NaN"), std::string::npos) << first;
  barrier.poison(1, "me too");
  expect_error(
      ErrorKind::worker_failed, [&] { barrier.wait(1); }, "rank 2 failed: loss is NaN");
}

TEST_P(BarrierUnder, ResetMakesItWholeAgain) {
  Barrier barrier(2);
  barrier.reset();
  for (int round = 0; round < 3; ++round) {
    for_each_rank(2, [&](int rank) { barrier.wait(rank, in_seconds(kSoon)); });
    EXPECT_NE(why_broken(barrier, 0, in_ms(0)), "");
    EXPECT_NE(why_broken(barrier, 0), "");
    barrier.reset();
    EXPECT_FALSE(barrier.is_broken());
    EXPECT_EQ(barrier.arrived(), 0);
  }
}

// A few ranks time out and reset at random. Whoever gets through a round does so with all others.
TEST_P(BarrierUnder, ARoundSucceedsForAllOrForNone) {
  constexpr int kWorld = 3, kTries = 300;
  Barrier barrier(kWorld);
  std::vector<int> successes(kWorld, 0);
  for_each_rank(kWorld, [&](int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int i = 0; i < kTries; ++i) {
      try {
        barrier.wait(rank, in_ms(static_cast<double>(random() % 3) / 2));
        ++successes[static_cast<std::size_t>(rank)];
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::timed_out) << error.what();
        barrier.reset();
      }
    }
  });
  EXPECT_EQ(successes[0], successes[1]);
  EXPECT_EQ(successes[0], successes[2]);
}

// What a process would leave that dies between its arrival and letting the others through.
TEST_P(BarrierUnder, TheLastToArriveMayDieOnTheWay) {
  constexpr int kFirstPlace = 64, kPlace = 256;
  Barrier barrier(2);
  std::thread waiter([&] { barrier.wait(0, in_seconds(kSoon)); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  auto* bytes = barrier.tensor().data<std::uint8_t>();
  const auto arrival = [&](int rank) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(bytes + kFirstPlace + rank * kPlace));
  };
  arrival(1).store(arrival(0).load());
  waiter.join();
  EXPECT_FALSE(barrier.is_broken());
}

TEST_P(BarrierUnder, RefusesRanksThatCannotBe) {
  Barrier barrier(2);
  for (const int rank : {-1, 2}) {
    expect_error(
        ErrorKind::invalid_argument, [&] { barrier.wait(rank); }, "in a world of 2");
    expect_error(
        ErrorKind::invalid_argument, [&] { barrier.join(rank); }, "in a world of 2");
    expect_error(
        ErrorKind::invalid_argument, [&] { barrier.poison(rank, ""); }, "world of 2");
  }
  for (const int size : {-1, 0, Barrier::kMaxWorldSize + 1})
    expect_error(
        ErrorKind::invalid_argument, [&] { Barrier{size}; }, "a world of");
}

TEST_P(BarrierUnder, NoticesTwoThreadsOfOneRank) {
  Barrier barrier(2);
  std::thread waiter([&] { barrier.wait(0, in_seconds(kSoon)); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  expect_error(
      ErrorKind::invalid_argument, [&] { barrier.wait(0); }, "rank 0 waits already");
  barrier.wait(1, in_seconds(kSoon));
  waiter.join();
}

TEST_P(BarrierUnder, TakesOnlyTensorsOfBarriers) {
  const Barrier barrier(2);
  test::expect_checked_words(barrier);
  EXPECT_EQ(Barrier(barrier.tensor()).world_size(), 2);
  for (const std::uint32_t size : {0U, 1U, 3U, 0xffff'ffffU}) {
    const Tensor bad = barrier.tensor().clone();
    *reinterpret_cast<std::uint32_t*>(bad.data<std::uint8_t>() + 16) = size;
    expect_error(
        ErrorKind::malformed, [&] { Barrier{bad}; }, "does not fit");
  }
}

// Another process may write anything there; what follows are errors or waits that end.
TEST_P(BarrierUnder, SurvivesMutatedWords) {
  const Barrier sound(3);
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Tensor tensor = sound.tensor().clone();
    Barrier barrier(tensor);
    auto* bytes = tensor.data<std::uint8_t>();
    for (unsigned n = random() % 20 + 1; n > 0; --n)
      bytes[20 + random() % (tensor.nbytes() - 20)] = static_cast<std::uint8_t>(random());
    (void)why_broken(barrier, 1, in_ms(0));
    barrier.reset();
    (void)barrier.arrived();
    (void)why_broken(barrier, 0, in_ms(0));
  }
}

}  // namespace
}  // namespace shoal
