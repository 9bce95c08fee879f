#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/runtime/ipc/mutex.h"
#include "support/expect_error.h"
#include "support/peer.h"
#include "support/strategies.h"

// Mutexes between processes, which may be killed.
namespace shoal {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

class MutexAcross : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, MutexAcross, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

void in_thread(const std::function<void()>& body) { std::thread(body).join(); }

// A lock whose thread has ended.
Mutex::Lock lock_and_end(Mutex& mutex, ThreadId& who) {
  std::optional<Mutex::Lock> lock;
  in_thread([&] {
    who = this_thread();
    lock = mutex.lock(in_seconds(kSoon));
  });
  return std::move(*lock);
}

ThreadId main_thread(const Peer& peer) {
  const auto pid = static_cast<std::uint32_t>(peer.pid());
  return {.pid = pid, .tid = pid};
}

// Locks, says so, and waits to be killed.
void lock_and_hang(Mutex mutex, Channel& channel) {
  const auto lock = mutex.lock(in_seconds(kSoon));
  channel.send({.tag = "locked"});
  (void)channel.receive(in_seconds(kSoon));
}

TEST_P(MutexAcross, ExcludesProcesses) {
  constexpr int kProcesses = 3, kTimes = 500;
  Mutex mutex;
  const Tensor count = Tensor::zeros_shared({}, DType::i64);
  std::vector<std::unique_ptr<Peer>> peers;
  peers.reserve(kProcesses);
  for (int i = 0; i < kProcesses; ++i) {
    peers.push_back(std::make_unique<Peer>([&](Channel& channel) {
      const Message message = receive_soon(channel);
      Mutex received(message.tensors.at(0));
      auto* total = message.tensors.at(1).data<std::int64_t>();
      for (int k = 0; k < kTimes; ++k) {
        const auto lock = received.lock(in_seconds(kSoon));
        *total += 1;
      }
    }));
  }
  for (auto& peer : peers) peer->channel().send({.tensors = {mutex.tensor(), count}});
  for (auto& peer : peers) EXPECT_EQ(peer->wait(), 0);
  EXPECT_EQ(count.item<std::int64_t>(), kProcesses * kTimes);
}

TEST_P(MutexAcross, TheDeathOfTheOwnerWakesTheNextWhoLearnsItsName) {
  Mutex mutex;
  Peer owner([&](Channel& channel) { lock_and_hang(mutex, channel); });
  EXPECT_EQ(receive_soon(owner.channel()).tag, "locked");
  Peer waiter([&](Channel& channel) {
    channel.send({.tag = "waiting"});
    auto lock = mutex.lock();
    const auto dead = lock.dead_owner();
    lock.make_consistent();
    channel.send({.tag = dead ? concat(dead->pid) : "nobody"});
  });
  EXPECT_EQ(receive_soon(waiter.channel()).tag, "waiting");
  expect_error(
      ErrorKind::timed_out, [&] { (void)mutex.lock(in_ms(1)); },
      concat("process ", owner.pid(), " holds it"));
  owner.kill();
  EXPECT_EQ(receive_soon(waiter.channel()).tag, concat(owner.pid()));
  EXPECT_EQ(waiter.wait(), 0);
  EXPECT_FALSE(mutex.lock(in_seconds(kSoon)).dead_owner()) << "it has been repaired";
}

TEST_P(MutexAcross, AnOwnerThatDiesRepairingIsTheNextDeadOwner) {
  Mutex mutex;
  for (int i = 0; i < 3; ++i) {
    Peer owner([&](Channel& channel) { lock_and_hang(mutex, channel); });
    EXPECT_EQ(receive_soon(owner.channel()).tag, "locked");
    owner.kill();
    EXPECT_EQ(owner.wait(), -SIGKILL);
    if (i == 2) {
      auto lock = mutex.lock(in_seconds(kSoon));
      EXPECT_EQ(lock.dead_owner(), main_thread(owner));
      lock.make_consistent();
    }
  }
}

TEST_P(MutexAcross, GivenBackUnrepairedItIsLostForAllProcesses) {
  Mutex mutex;
  Peer owner([&](Channel& channel) { lock_and_hang(mutex, channel); });
  EXPECT_EQ(receive_soon(owner.channel()).tag, "locked");
  owner.kill();
  EXPECT_EQ(owner.wait(), -SIGKILL);
  std::vector<std::unique_ptr<Peer>> waiters;
  const std::string why = concat("process ", owner.pid(), " died holding it, and process ",
                                 this_thread().pid, " gave it back unrepaired");
  {
    const auto lock = mutex.lock(in_seconds(kSoon));
    waiters.reserve(3);
    for (int i = 0; i < 3; ++i) {
      waiters.push_back(std::make_unique<Peer>([&](Channel& channel) {
        channel.send({.tag = "waiting"});
        try {
          (void)mutex.lock();
        } catch (const Error& error) {
          channel.send({.tag = error.reason()});
        }
      }));
      EXPECT_EQ(receive_soon(waiters.back()->channel()).tag, "waiting");
    }
  }
  for (auto& waiter : waiters) EXPECT_EQ(receive_soon(waiter->channel()).tag, why);
  expect_error(
      ErrorKind::peer_gone, [&] { (void)mutex.lock(); }, why);
}

TEST_P(MutexAcross, AForkedChildHoldsNothingOfItsParent) {
  Mutex mutex;
  auto lock = mutex.lock();
  Peer child([&](Channel& channel) {
    {
      const Mutex::Lock inherited = std::move(lock);
      const bool locked = !mutex.try_lock();
      channel.send({.tag = locked ? "locked by its parent" : "free"});
    }
    expect_error(
        ErrorKind::timed_out, [&] { (void)mutex.lock(in_ms(1)); }, "holds it");
    channel.send({.tag = testing::Test::HasFailure() ? "free" : "still locked"});
    channel.send({.tag = mutex.lock(in_seconds(kSoon)).dead_owner() ? "dead" : "handed over"});
  });
  EXPECT_EQ(receive_soon(child.channel()).tag, "locked by its parent");
  EXPECT_EQ(receive_soon(child.channel()).tag, "still locked");
  EXPECT_EQ(mutex.owner(), this_thread());
  lock.unlock();
  EXPECT_EQ(receive_soon(child.channel()).tag, "handed over");
}

// A thread may end without its process. (Here rather than among the tests of threads, since
// ThreadSanitizer takes the next lock for a mistake.)
TEST_P(MutexAcross, TheNextOwnerLearnsWhichThreadEnded) {
  Mutex mutex;
  ThreadId ended;
  auto stale = lock_and_end(mutex, ended);
  {
    auto lock = mutex.lock(in_seconds(kSoon));
    EXPECT_EQ(lock.dead_owner(), ended);
    expect_error(
        ErrorKind::invalid_argument, [&] { stale.unlock(); }, "locked it");
    lock.make_consistent();
    EXPECT_FALSE(lock.dead_owner());
    lock.make_consistent();
  }
  EXPECT_FALSE(mutex.lock().dead_owner());
  expect_error(
      ErrorKind::invalid_argument, [&] { stale.unlock(); }, "locked it");
}

TEST_P(MutexAcross, TryLockLearnsItToo) {
  Mutex mutex;
  ThreadId ended;
  const auto stale = lock_and_end(mutex, ended);
  auto lock = mutex.try_lock();
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->dead_owner(), ended);
  lock->make_consistent();
}

TEST_P(MutexAcross, UnlockedUnrepairedItIsLostForAll) {
  Mutex mutex;
  ThreadId ended;
  const auto stale = lock_and_end(mutex, ended);
  const ThreadId self = this_thread();
  std::vector<std::thread> waiters;
  const auto expect_lost = [&] {
    expect_error(
        ErrorKind::peer_gone, [&] { (void)mutex.lock(in_seconds(kSoon)); },
        concat("thread ", ended.tid, " of process ", ended.pid, " died holding it, and "),
        concat("process ", self.pid, " gave it back unrepaired"), "Make a new one");
  };
  {
    const auto lock = mutex.lock();
    EXPECT_TRUE(lock.dead_owner());
    waiters.reserve(3);
    for (int i = 0; i < 3; ++i) waiters.emplace_back(expect_lost);
  }
  for (std::thread& waiter : waiters) waiter.join();
  expect_lost();
  expect_error(
      ErrorKind::peer_gone, [&] { (void)mutex.try_lock(); }, "unrepaired");
}

// Two numbers that must be equal whenever the lock is free.
struct Pair {
  std::atomic_ref<std::int64_t> first, second;
  explicit Pair(const Tensor& tensor)
      : first(tensor.at<std::int64_t>(0)), second(tensor.at<std::int64_t>(1)) {}
  [[nodiscard]] bool equal() const { return first.load() == second.load(); }
};

// One turn of a worker. False if it finds what must not be.
bool take_turn(Mutex& mutex, Pair& pair, int& repairs) {
  auto lock = mutex.lock(in_seconds(kSoon));
  if (lock.dead_owner()) {
    pair.second = pair.first.load();
    lock.make_consistent();
    ++repairs;
  }
  if (!pair.equal()) return false;
  ++pair.first;
  ++pair.second;
  return true;
}

TEST_P(MutexAcross, WhereverOwnersAreKilledTheOthersRepairAndGoOn) {
  int repairs = 0;
  for (unsigned seed = 0; seed < 25; ++seed) {
    Mutex mutex;
    const Tensor tensor = Tensor::zeros_shared({2}, DType::i64);
    Pair pair(tensor);
    std::vector<std::unique_ptr<Peer>> workers;
    workers.reserve(3);
    for (int i = 0; i < 3; ++i) {
      workers.push_back(std::make_unique<Peer>([&](Channel&) {
        Pair mine(tensor);
        int mended = 0;
        while (take_turn(mutex, mine, mended)) {
        }
      }));
    }
    std::mt19937 random(seed);
    for (auto& worker : workers) {
      const std::int64_t enough = pair.first.load() + static_cast<std::int64_t>(random() % 200);
      ASSERT_TRUE(test::soon([&] { return pair.first.load() >= enough; })) << "seed " << seed;
      for (unsigned spin = random() % 3000; spin > 0; --spin) (void)pair.first.load();
      worker->kill();
      EXPECT_EQ(worker->wait(), -SIGKILL) << "seed " << seed;
      EXPECT_TRUE(take_turn(mutex, pair, repairs)) << "seed " << seed;
    }
  }
  RecordProperty("repairs", repairs);
}

}  // namespace
}  // namespace shoal
