#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "shoal/runtime/shm/segment_survey.h"
#include "support/expect_error.h"
#include "support/in_child.h"
#include "support/small_shm.h"
#include "tools/manager_fixture.h"

// The library as a client of the manager: what it tells, how often, and what it makes of a manager
// that comes and goes.
namespace shoal {
namespace {

using test::all_go;
using test::kNamed;
using test::kSoon;
using test::Peer;
using test::receive_soon;

using Segments = std::vector<std::unique_ptr<Segment>>;

void make(Segments& held, int count) {
  for (int i = 0; i < count; ++i) held.push_back(std::make_unique<Segment>(100, 1, kNamed));
}

class Client : public test::WithManager {
 protected:
  // What the manager knows of a process.
  [[nodiscard]] std::optional<manager::Client> known(pid_t pid) const {
    const auto all = clients();
    const auto at = std::ranges::find(all, static_cast<std::uint32_t>(pid), &manager::Client::pid);
    return at == all.end() ? std::nullopt : std::optional(*at);
  }
};

TEST_F(Client, TellsOfSixteenNamesAtATimeBeforeTheyAreMade) {
  const auto manager = serve();
  Peer peer([](Channel& channel) {
    Segments held;
    for (const int count : {1, 15, 1}) {
      make(held, count);
      channel.send({});
      (void)receive_soon(channel);
    }
  });
  const std::uint64_t expected[][2] = {{16, 2}, {16, 2}, {32, 3}};  // hello is a message, too
  for (const auto& [holds, messages] : expected) {
    (void)receive_soon(peer.channel());
    const auto client = known(peer.pid());
    ASSERT_TRUE(client);
    EXPECT_EQ(client->holds, holds);
    EXPECT_EQ(client->messages, messages);
    peer.channel().send({});
  }
  EXPECT_EQ(peer.wait(), 0);
}

TEST_F(Client, ForgetsTheNamesThatItHasRemoved) {
  const auto manager = serve();
  Peer peer([](Channel& channel) {
    for (int i = 0; i < 1000; ++i) const Segment segment(100, 1, kNamed);
    channel.send({});
    (void)receive_soon(channel);
  });
  (void)receive_soon(peer.channel());
  const auto client = known(peer.pid());
  ASSERT_TRUE(client);
  EXPECT_LE(client->holds, 32U);
  EXPECT_LT(client->messages, 1000U / 4);
  peer.channel().send({});
  EXPECT_EQ(peer.wait(), 0);
}

TEST_F(Client, AForkedChildLeavesItsParentTheNamesThatWereTold) {
  const auto manager = serve();
  Peer parent([](Channel& channel) {
    Segments held;
    make(held, 1);
    Peer child([](Channel& to_parent) {
      Segments own;
      make(own, 16);
      to_parent.send({});
      (void)receive_soon(to_parent);
    });
    (void)receive_soon(child.channel());
    make(held, 15);
    channel.send({.bytes = std::vector<std::byte>(static_cast<std::size_t>(child.pid()))});
    (void)receive_soon(channel);
  });
  const auto child = static_cast<pid_t>(receive_soon(parent.channel()).bytes.size());
  // Each has used up what it had told of, and asked for no more.
  const auto of_child = known(child), of_parent = known(parent.pid());
  ASSERT_TRUE(of_child && of_parent);
  EXPECT_EQ(of_child->holds, 17U);  // with what it inherited
  EXPECT_EQ(of_parent->holds, 16U);
  EXPECT_EQ(of_parent->messages, 2U);
  parent.channel().send({});
  EXPECT_EQ(parent.wait(), 0);
}

// With fifteen names left that only the dead one knew of.
TEST_F(Client, MissesADeadManagerBeforeTheNextNameIsMade) {
  const auto manager = serve();
  Peer peer([](Channel& channel) {
    Segments held;
    for (int i = 0; i < 2; ++i) {
      make(held, 1);
      channel.send({.tag = held.back()->name()});
      (void)receive_soon(channel);
    }
  });
  std::vector<std::string> names = {receive_soon(peer.channel()).tag};
  ::kill(manager->pid(), SIGKILL);
  (void)manager->wait(in_seconds(kSoon));
  peer.channel().send({});
  names.push_back(receive_soon(peer.channel()).tag);
  const auto client = known(peer.pid());
  ASSERT_TRUE(client);
  EXPECT_EQ(client->holds, 16U);
  peer.kill();
  EXPECT_TRUE(all_go(names));
}

TEST_F(Client, MayHaveAsManyNamesAsTheManagerAllows) {
  const auto manager = serve({"--max-names", "20"});
  EXPECT_EQ(in_child([] {
              Segments held;
              make(held, 20);
              expect_error(
                  ErrorKind::limit_reached, [&] { make(held, 1); }, "--max-names");
              held.pop_back();
              make(held, 1);
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

// What it tells all at once, of which only some is new, or too much.
TEST_F(Client, KeepsToTheLimitAlsoWithTheNextManager) {
  auto manager = serve({"--max-names", "100"});
  Peer peer([](Channel& channel) {
    Segments held;
    for (const int count : {96, 1, 3, 1}) {
      std::string error;
      try {
        make(held, count);
      } catch (const Error& refused) {
        error = refused.what();
      }
      channel.send({.tag = error});
      (void)receive_soon(channel);
    }
  });
  EXPECT_EQ(receive_soon(peer.channel()).tag, "");
  ::kill(manager->pid(), SIGKILL);
  (void)manager->wait(in_seconds(kSoon));
  manager = serve({"--max-names", "100"});
  for (const char* error : {"", "", "--max-names"}) {
    peer.channel().send({});
    const std::string told = receive_soon(peer.channel()).tag;
    EXPECT_EQ(told.empty(), *error == '\0') << told;
    EXPECT_NE(told.find(error), std::string::npos) << told;
  }
  peer.channel().send({});
  EXPECT_EQ(peer.wait(), 0);
}

TEST_F(Client, LetsGoOfNamesAheadThatTheNextManagerDoesNotAllow) {
  auto manager = serve();
  Peer peer([](Channel& channel) {
    Segments held;
    make(held, 6);
    channel.send({});
    (void)receive_soon(channel);
    make(held, 4);
    channel.send({.tag = "well"});
    (void)receive_soon(channel);
  });
  (void)receive_soon(peer.channel());
  ::kill(manager->pid(), SIGKILL);
  (void)manager->wait(in_seconds(kSoon));
  manager = serve({"--max-names", "10"});
  peer.channel().send({});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "well");
  peer.channel().send({});
  EXPECT_EQ(peer.wait(), 0);
}

// Whatever listens is killed again and again, at any moment of its life and of its clients'.
TEST_F(Client, GoesOnWhileManagersAreKilled) {
  constexpr int kWorkers = 4, kKills = 25;
  std::vector<Peer> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.push_back(Peer([](Channel& channel) {
      Segments held;
      try {
        for (int made = 0; !channel.receive(in_ms(1)); ++made) {
          make(held, 1);
          if (held.size() > 20) held.erase(held.begin());
          if (made == 0) channel.send({.tag = "well"});
        }
        channel.send({.tag = "well"});
      } catch (const Error& error) {
        channel.send({.tag = error.what()});
      }
      (void)receive_soon(channel);
    }));
  }
  for (Peer& worker : workers) EXPECT_EQ(receive_soon(worker.channel()).tag, "well");
  std::minstd_rand random(1);
  for (int kill = 0; kill < kKills; ++kill) {
    std::optional<std::uint32_t> pid;
    EXPECT_TRUE(test::soon([&] { return (pid = manager_pid()).has_value(); }));
    if (!pid) break;
    ::poll(nullptr, 0, static_cast<int>(random() % 30));
    ::kill(static_cast<pid_t>(*pid), SIGKILL);
  }
  for (Peer& worker : workers) {
    worker.channel().send({});
    EXPECT_EQ(receive_soon(worker.channel()).tag, "well");
    worker.kill();
    (void)worker.wait();
  }
  const std::string prefix = shm_directory::name_prefix();
  // The last one may have died after the last segment was made: then the next one finds what is
  // left, as it would with the next program.
  if (!manager_pid())
    (void)in_child([] { return Segment(100, 1, kNamed).nbytes() == 100 ? 0 : 1; });
  EXPECT_TRUE(test::soon([&] { return shm_directory::list(prefix).empty(); }));
}

// FIELD: "opener hangs, or sees incompatible contents".
TEST_F(Client, KilledOnTheWayLeavesNoHalfMadeSegment) {
  const auto manager = serve();
  const std::string prefix = shm_directory::name_prefix();
  std::minstd_rand random(7);
  std::size_t seen = 0;
  for (int round = 0; round < 40; ++round) {
    Peer maker([](Channel& channel) {
      Segments held;
      make(held, 1);
      channel.send({});
      for (;; make(held, 1))
        if (held.size() > 10) held.erase(held.begin(), held.end() - 1);
    });
    (void)receive_soon(maker.channel());
    const timespec wait{.tv_sec = 0, .tv_nsec = static_cast<long>(random() % 5'000'000)};
    ::nanosleep(&wait, nullptr);
    // It does not remove them before they have been looked at.
    ::kill(manager->pid(), SIGSTOP);
    maker.kill();
    for (const SegmentReport& segment : survey_segments(prefix)) {
      EXPECT_NE(segment.state, SegmentState::unknown) << segment.name << ": " << segment.reason;
      EXPECT_EQ(segment.creator_pid, static_cast<std::uint32_t>(maker.pid()));
      ++seen;
    }
    (void)maker.wait();
    ::kill(manager->pid(), SIGCONT);
    EXPECT_TRUE(test::soon([&] { return shm_directory::list(prefix).empty(); }));
  }
  EXPECT_GT(seen, 0U);
}

TEST_F(Client, SaysWhatIsFullAndGoesOnWithLess) {
  if (in_child([] { return test::shrink_dev_shm() ? 0 : 1; }) != 0)
    GTEST_SKIP() << "SKIP: mount namespaces are not permitted here";
  EXPECT_EQ(in_child([] {
              if (!test::shrink_dev_shm()) return 2;
              constexpr std::size_t kMiB = std::size_t{1} << 20;
              const Segment small(100, 1, kNamed);
              // Where it is looked at what is left first; and where the last look is enough, if it
              // was not long ago, so that only to make it fails.
              for (const std::size_t nbytes : {2 * kMiB, kMiB - 8192}) {
                expect_error(
                    ErrorKind::no_space, [&] { const Segment large(nbytes, 1, kNamed); },
                    "/dev/shm");
              }
              const Segment another(100, 1, kNamed);
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST_F(Client, SaysThatItHasNoDescriptorLeftForTheConnection) {
  const auto manager = serve();
  EXPECT_EQ(in_child([] {
              // One for the segment, none for the socket.
              const int next = ::dup(STDERR_FILENO);
              const rlimit files{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
              ::close(next);
              if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return 2;
              expect_error(
                  ErrorKind::limit_reached, [] { const Segment segment(100, 1, kNamed); },
                  "descriptors");
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

}  // namespace
}  // namespace shoal
