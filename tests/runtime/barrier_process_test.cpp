#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shoal/runtime/ipc/barrier.h"
#include "support/expect_error.h"
#include "support/peer.h"
#include "support/shm_names.h"
#include "support/strategies.h"

// Barriers between processes, which may be killed.
namespace shoal {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

class BarrierAcross : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, BarrierAcross, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

// Waits forever, so that only the death of a peer ends it, and tells what that said.
std::string outcome(Barrier& barrier, int rank, Deadline deadline = kForever) {
  try {
    barrier.wait(rank, deadline);
    return "through";
  } catch (const Error& error) {
    return concat(to_string(error.kind()), ": ", error.reason());
  }
}

std::string names(int rank, pid_t pid) { return concat("rank ", rank, " (process ", pid, ")"); }

TEST_P(BarrierAcross, CrossesAChannelAndOrdersMemory) {
  constexpr int kRounds = 200;
  const auto run = [](Barrier& barrier, const Tensor& board, int rank) {
    bool right = true;
    for (int round = 0; round < kRounds; ++round) {
      board.at<std::int64_t>(rank) = round;
      barrier.wait(rank, in_seconds(kSoon));
      right = right && board.at<std::int64_t>(1 - rank) == round;
      barrier.wait(rank, in_seconds(kSoon));
    }
    return right;
  };
  Peer peer([&](Channel& channel) {
    const Message message = receive_soon(channel);
    Barrier barrier(message.tensors.at(0));
    channel.send({.tag = run(barrier, message.tensors.at(1), 1) ? "right" : "wrong"});
  });
  Barrier barrier(2);
  const Tensor board = Tensor::zeros({2}, DType::i64);
  peer.channel().send({.tensors = {barrier.tensor(), board}});
  EXPECT_TRUE(run(barrier, board, 0));
  EXPECT_EQ(receive_soon(peer.channel()).tag, "right");
}

TEST_P(BarrierAcross, ARankKilledBeforeItArrivesIsNamedToAll) {
  Barrier barrier(3);
  Peer survivor([&](Channel& channel) { channel.send({.tag = outcome(barrier, 1)}); });
  Peer killed([&](Channel&) {
    barrier.join(2);
    (void)test::soon([&] { return barrier.arrived() == 2; });
    ::raise(SIGKILL);
  });
  const std::string here = outcome(barrier, 0);
  EXPECT_EQ(here, concat("peer gone: ", names(2, killed.pid()), " has ended without arriving"));
  EXPECT_EQ(receive_soon(survivor.channel()).tag, here);
  EXPECT_EQ(outcome(barrier, 0), here) << "it stays broken";
}

TEST_P(BarrierAcross, AllDeadRanksAreNamed) {
  Barrier barrier(3);
  Peer first([&](Channel&) { barrier.join(1); });
  Peer second([&](Channel&) { barrier.join(2); });
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  const std::string here = outcome(barrier, 0);
  EXPECT_EQ(here, concat("peer gone: ranks 1 (process ", first.pid(), "), 2 (process ",
                         second.pid(), ") have ended without arriving"));
}

TEST_P(BarrierAcross, ARankKilledWhileItWaitsHasDoneItsPart) {
  Barrier barrier(2);
  Peer killed([&](Channel&) { barrier.wait(1, in_seconds(kSoon)); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  killed.kill();
  EXPECT_EQ(killed.wait(), -SIGKILL);
  EXPECT_EQ(outcome(barrier, 0), "through");
  EXPECT_EQ(outcome(barrier, 0),
            concat("peer gone: ", names(1, killed.pid()), " has ended without arriving"));
}

TEST_P(BarrierAcross, ARankThatNeverCameIsMissedAtTheDeadline) {
  Barrier barrier(3);
  Peer other([&](Channel& channel) { channel.send({.tag = outcome(barrier, 1)}); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  const std::string here = outcome(barrier, 0, in_ms(50));
  EXPECT_EQ(here, "timed out: rank 2 has not arrived when the deadline of rank 0 passed");
  EXPECT_EQ(receive_soon(other.channel()).tag, here);
}

TEST_P(BarrierAcross, PoisonWakesOtherProcesses) {
  Barrier barrier(3);
  Peer failing([&](Channel&) {
    (void)test::soon([&] { return barrier.arrived() == 2; });
    barrier.poison(2, "out of data");
  });
  Peer other([&](Channel& channel) { channel.send({.tag = outcome(barrier, 1)}); });
  EXPECT_EQ(outcome(barrier, 0), "worker failed: rank 2 failed: out of data");
  EXPECT_EQ(receive_soon(other.channel()).tag, "worker failed: rank 2 failed: out of data");
}

TEST_P(BarrierAcross, AfterAResetAnotherProcessTakesTheRank) {
  Barrier barrier(2);
  Peer killed([&](Channel&) {
    barrier.join(1);
    ::raise(SIGKILL);
  });
  EXPECT_EQ(killed.wait(), -SIGKILL);
  EXPECT_NE(outcome(barrier, 0), "through");
  barrier.reset();
  Peer heir([&](Channel&) { barrier.wait(1, in_seconds(kSoon)); });
  EXPECT_EQ(outcome(barrier, 0, in_seconds(kSoon)), "through");
  EXPECT_EQ(heir.wait(), 0);
}

TEST_P(BarrierAcross, AnHeirArrivesForARankThatDiedWaiting) {
  Barrier barrier(2);
  Peer killed([&](Channel&) { barrier.wait(1, in_seconds(kSoon)); });
  ASSERT_TRUE(test::soon([&] { return barrier.arrived() == 1; }));
  killed.kill();
  EXPECT_EQ(killed.wait(), -SIGKILL);
  Peer heir([&](Channel& channel) {
    barrier.join(1);
    channel.send({.tag = "joined"});
    barrier.wait(1, in_seconds(kSoon));
  });
  EXPECT_EQ(receive_soon(heir.channel()).tag, "joined");
  EXPECT_EQ(outcome(barrier, 0, in_seconds(kSoon)), "through");
  EXPECT_EQ(heir.wait(), 0);
}

TEST_P(BarrierAcross, TwoLivingProcessesCannotHaveOneRank) {
  Barrier barrier(2);
  barrier.join(0);
  Peer peer([&](Channel& channel) {
    channel.send({.tag = outcome(barrier, 0)});
    barrier.wait(1, in_seconds(kSoon));
  });
  EXPECT_EQ(receive_soon(peer.channel()).tag,
            concat("invalid argument: rank 0 is process ", ::getpid(),
                   ", which lives; this is process ", peer.pid()));
  barrier.wait(0, in_seconds(kSoon));
}

// What a process made by fork inherits does not keep its parent alive.
TEST_P(BarrierAcross, AForkedChildDoesNotStandInForItsParent) {
  Barrier barrier(3);
  Peer parent([&](Channel& channel) {
    barrier.join(1);
    if (::fork() == 0) {
      channel.send({.tag = outcome(barrier, 2)});
      SegmentPool::instance().leave_named_segments();
      ::_exit(0);
    }
    (void)test::soon([&] { return barrier.arrived() == 2; });
    ::raise(SIGKILL);
  });
  const std::string here = outcome(barrier, 0);
  EXPECT_EQ(here, concat("peer gone: ", names(1, parent.pid()), " has ended without arriving"));
  EXPECT_EQ(receive_soon(parent.channel()).tag, here);
}

TEST_P(BarrierAcross, APassingSignalDoesNotHideADeath) {
  Barrier barrier(2);
  Peer killed([&](Channel&) {
    barrier.join(1);
    (void)test::soon([&] { return barrier.arrived() == 1; });
    ::raise(SIGKILL);
  });
  // Far more often than anybody looks around.
  Peer waiter([&](Channel& channel) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 5000},
                          .it_value = {.tv_sec = 0, .tv_usec = 5000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    channel.send({.tag = outcome(barrier, 0)});
  });
  EXPECT_EQ(receive_soon(waiter.channel()).tag,
            concat("peer gone: ", names(1, killed.pid()), " has ended without arriving"));
}

// Three processes meet as fast as they can; one is killed at any point of that.
TEST_P(BarrierAcross, WhereverARankIsKilledTheOthersAgree) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Barrier barrier(3);
    const Tensor rounds = Tensor::zeros_shared({3}, DType::i64);
    const auto count_of = [&](int rank) { return std::atomic_ref(rounds.at<std::int64_t>(rank)); };
    const auto run = [&](int rank) {
      return [&, rank](Channel& channel) {
        std::string end;
        while ((end = outcome(barrier, rank)) == "through") count_of(rank).fetch_add(1);
        channel.send({.tag = end});
      };
    };
    std::vector<std::unique_ptr<Peer>> peers;
    peers.reserve(3);
    for (int rank = 0; rank < 3; ++rank) peers.push_back(std::make_unique<Peer>(run(rank)));
    std::mt19937 random(seed);
    const int victim = static_cast<int>(random() % 3);
    // At least one round, since a rank that was never there is missed at a deadline only.
    const auto enough = static_cast<std::int64_t>(1 + random() % 100);
    ASSERT_TRUE(test::soon([&] { return count_of(victim).load() >= enough; }));
    for (unsigned spin = random() % 2000; spin > 0; --spin) (void)count_of(victim).load();
    const Peer& killed = *peers.at(static_cast<std::size_t>(victim));
    killed.kill();
    std::vector<std::int64_t> successes;
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      Peer& peer = *peers.at(static_cast<std::size_t>(rank));
      EXPECT_EQ(receive_soon(peer.channel()).tag,
                concat("peer gone: ", names(victim, killed.pid()), " has ended without arriving"))
          << "seed " << seed;
      EXPECT_EQ(peer.wait(), 0);
      successes.push_back(count_of(rank).load());
    }
    EXPECT_EQ(successes.at(0), successes.at(1)) << "seed " << seed;
  }
}

TEST_P(BarrierAcross, LeavesNoNameBehind) {
  std::string name;
  {
    Barrier barrier(2);
    name = barrier.tensor().storage()->block()->segment_name();
    EXPECT_EQ(!name.empty(), GetParam() == SharingStrategy::file_system);
    Peer killed([&](Channel&) {
      barrier.join(1);
      ::raise(SIGKILL);
    });
    EXPECT_NE(outcome(barrier, 0, in_ms(5)), "through");
  }
  SegmentPool::instance().trim();
  EXPECT_FALSE(!name.empty() && test::shm_name_exists(name));
}

}  // namespace
}  // namespace shoal
