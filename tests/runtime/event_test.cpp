#include "shoal/runtime/ipc/event.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/expect_error.h"
#include "support/peer.h"
#include "support/strategies.h"
#include "support/words.h"

// Events between threads.
namespace shoal {
namespace {

using test::kSoon;

class EventUnder : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, EventUnder, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(EventUnder, LetsAllThroughUntilItIsCleared) {
  Event event;
  EXPECT_TRUE(event.tensor().is_shared());
  EXPECT_FALSE(event.is_set());
  EXPECT_FALSE(event.wait(in_ms(0)));
  EXPECT_FALSE(event.wait(in_ms(1)));
  int written = 0;
  std::atomic<int> through = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&event, &written, &through] {
      if (event.wait(in_seconds(kSoon)) && written == 7) ++through;
    });
  }
  written = 7;
  event.set();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(through, 4);
  EXPECT_TRUE(event.wait());
  EXPECT_TRUE(event.is_set());
  event.clear();
  EXPECT_FALSE(event.wait(in_ms(0)));
  event.set();
  event.set();
  EXPECT_TRUE(event.wait(in_ms(0)));
}

TEST_P(EventUnder, APulseIsNotMissedByThoseWhoWait) {
  Event event, answer;
  constexpr int kRounds = 200;
  std::atomic<int> got = 0;
  std::thread waiter([&] {
    while (got < kRounds && event.wait(in_seconds(kSoon))) ++got;
  });
  for (int round = 0; round < kRounds; ++round) {
    // A pulse before the waiter waits is for nobody, so it is repeated until it was seen.
    ASSERT_TRUE(test::soon([&] {
      event.set();
      event.clear();
      return got > round;
    }));
  }
  waiter.join();
  EXPECT_GE(got, kRounds);
}

TEST_P(EventUnder, TwoPlayersTakeTurns) {
  constexpr int kRounds = 1000;
  Event ping, pong;
  int turns = 0;
  const auto play = [&turns](Event& mine, Event& theirs) {
    for (int round = 0; round < kRounds; ++round) {
      if (!mine.wait(in_seconds(kSoon))) return;
      mine.clear();
      ++turns;
      theirs.set();
    }
  };
  std::thread other([&] { play(pong, ping); });
  ping.set();
  play(ping, pong);
  other.join();
  EXPECT_EQ(turns, 2 * kRounds);
}

TEST_P(EventUnder, PoisonEndsAllWaitsWithTheFirstReason) {
  Event event;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&event] {
      expect_error(
          ErrorKind::worker_failed, [&] { (void)event.wait(in_seconds(kSoon)); },
          "the disk is full");
    });
  }
  event.poison("the disk is full");
  for (std::thread& thread : threads) thread.join();
  event.poison("another reason");
  event.set();
  expect_error(
      ErrorKind::worker_failed, [&] { (void)event.wait(); }, "the disk is full");
}

TEST_P(EventUnder, ALongReasonIsCut) {
  Event event;
  event.poison(std::string(1000, 'x'));
  expect_error(
      ErrorKind::worker_failed, [&] { (void)event.wait(); }, std::string(200, 'x'));
}

TEST_P(EventUnder, ACopyAndItsTensorAreTheSameEvent) {
  Event event;
  Event copy = event;
  Event received(event.tensor());
  copy.set();
  EXPECT_TRUE(event.wait(in_ms(0)));
  EXPECT_TRUE(received.wait(in_ms(0)));
}

TEST_P(EventUnder, APrivateTensorIsSharedInPlace) {
  const Tensor tensor = Event().tensor().clone();
  Event event(tensor);
  EXPECT_TRUE(tensor.is_shared());
  Event(tensor).set();
  EXPECT_TRUE(event.is_set());
}

TEST_P(EventUnder, TakesOnlyTensorsOfEvents) { test::expect_checked_words(Event()); }

}  // namespace
}  // namespace shoal
