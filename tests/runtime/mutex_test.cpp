#include "shoal/runtime/ipc/mutex.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect_error.h"
#include "support/peer.h"
#include "support/strategies.h"
#include "support/words.h"

// Mutexes between threads.
namespace shoal {
namespace {

using test::kSoon;

class MutexUnder : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, MutexUnder, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

void in_thread(const std::function<void()>& body) { std::thread(body).join(); }

TEST_P(MutexUnder, ExcludesThreads) {
  constexpr int kThreads = 4, kTimes = 500;
  Mutex mutex;
  int count = 0;  // plain memory: the mutex alone orders it
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kTimes; ++k) {
        const auto lock = i % 2 == 0 ? mutex.lock() : mutex.lock(in_seconds(kSoon));
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTimes);
  EXPECT_FALSE(mutex.owner());
}

TEST_P(MutexUnder, ADeadlineNamesTheOwner) {
  Mutex mutex;
  const auto lock = mutex.lock();
  EXPECT_EQ(mutex.owner(), this_thread());
  in_thread([&] {
    expect_error(
        ErrorKind::timed_out, [&] { (void)mutex.lock(in_ms(1)); },
        concat("process ", this_thread().pid, " holds it"));
    expect_error(
        ErrorKind::timed_out, [&] { (void)mutex.lock(in_ms(-1)); }, "holds it");
    EXPECT_FALSE(mutex.try_lock());
  });
}

TEST_P(MutexUnder, ADeadlineThatHasPassedStillTakesAFreeOne) {
  Mutex mutex;
  EXPECT_TRUE(mutex.lock(in_ms(0)).holds());
  EXPECT_TRUE(mutex.try_lock());
}

TEST_P(MutexUnder, CannotBeLockedTwiceByOneThread) {
  Mutex mutex;
  {
    const auto lock = mutex.lock();
    expect_error(
        ErrorKind::invalid_argument, [&] { (void)mutex.lock(); }, "this thread holds it");
    expect_error(
        ErrorKind::invalid_argument, [&] { (void)mutex.lock(in_ms(1)); }, "this thread");
    expect_error(
        ErrorKind::invalid_argument, [&] { (void)mutex.try_lock(); }, "this thread");
  }
  EXPECT_TRUE(mutex.try_lock());
}

TEST_P(MutexUnder, ALockIsMovedAndUnlockedOnce) {
  Mutex mutex;
  auto first = mutex.lock();
  Mutex::Lock second = std::move(first);
  EXPECT_TRUE(second.holds());
  second.unlock();
  EXPECT_FALSE(second.holds());
  expect_error(
      ErrorKind::invalid_argument, [&] { second.unlock(); }, "unlocked already");
  expect_error(
      ErrorKind::invalid_argument, [&] { second.make_consistent(); }, "unlocked");
  second = mutex.lock();
  Mutex other;
  second = other.lock();
  EXPECT_TRUE(mutex.try_lock()) << "what was assigned to is unlocked";
}

TEST_P(MutexUnder, ALockKeepsTheMutexInMemory) {
  std::optional<Mutex> mutex{std::in_place};
  auto lock = mutex->lock();
  mutex.reset();
  SegmentPool::instance().trim();
  lock.unlock();
}

TEST_P(MutexUnder, OnlyTheThreadThatLockedItUnlocksIt) {
  Mutex mutex;
  auto lock = mutex.lock();
  in_thread([&] {
    expect_error(
        ErrorKind::invalid_argument, [&] { lock.unlock(); }, "locked it");
    EXPECT_TRUE(lock.holds());
  });
  EXPECT_EQ(mutex.owner(), this_thread());
  lock.unlock();
}

// A mistake, but one that must not break the owner's list of held mutexes.
TEST_P(MutexUnder, ALockDestroyedElsewhereStaysLockedAndMapped) {
  Mutex after;
  {
    Mutex mutex;
    auto lock = std::make_optional(mutex.lock());
    in_thread([&] { lock.reset(); });
    EXPECT_EQ(mutex.owner(), this_thread());
  }
  SegmentPool::instance().trim();
  EXPECT_TRUE(after.lock().holds());
}

TEST_P(MutexUnder, ACopyAndItsTensorAreTheSameMutex) {
  Mutex mutex;
  Mutex copy = mutex;
  Mutex received(mutex.tensor());
  const auto lock = copy.lock();
  in_thread([&] {
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(received.try_lock());
  });
}

TEST_P(MutexUnder, TakesOnlyTensorsOfMutexes) {
  const Mutex mutex;
  test::expect_checked_words(mutex);
  const Tensor bad = mutex.tensor().clone();
  bad.at<std::uint8_t>(16) += 1;
  expect_error(
      ErrorKind::malformed, [&] { Mutex{bad}; }, "a mutex of");
}

}  // namespace
}  // namespace shoal
