#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "support/expect_error.h"
#include "support/in_child.h"
#include "tools/manager_fixture.h"

// The manager among namespaces, other users, and under systemd's socket activation.
namespace shoal {
namespace {

using test::all_exist;
using test::all_go;
using test::Holder;
using test::kNamed;
using test::kSoon;
using test::Peer;
using test::receive_soon;
using test::start_holder;

using System = test::WithManager;

constexpr int kCannot = 77;

// `body` as process 1 of a PID namespace of its own, with all else shared; kCannot where that is
// not allowed.
template <class Body>
int in_pid_namespace(Body&& body) {
  return in_child([&] {
    if (::unshare(CLONE_NEWPID) != 0) return kCannot;
    return in_child([&] {
      EXPECT_EQ(::getpid(), 1);
      return body();
    });
  });
}

// Two containers with one /dev/shm: in both the holder is process 1.
TEST_F(System, NamespacesOfProcessesDoNotReapEachOther) {
  const auto manager = serve();
  auto [ours, theirs] = Channel::pair();
  Peer first([&theirs = theirs](Channel& channel) {
    const int code = in_pid_namespace([&] {
      const Segment segment(100, 1, kNamed);
      theirs.send({.tag = segment.name()});
      (void)receive_soon(theirs);
      return segment.data()[0] == std::byte{0} ? 0 : 1;
    });
    if (code == kCannot) theirs.send({});
    channel.send({.tag = std::to_string(code)});
  });
  const std::string held = receive_soon(ours).tag;
  if (held.empty()) GTEST_SKIP() << "SKIP: no PID namespaces to be had";
  EXPECT_EQ(in_pid_namespace([&] {
              // Another one's, ended by then: gone; the first one's: kept.
              start_holder().peer.kill();
              reap_orphans();
              const Segment segment(100, 1, kNamed);
              return test::shm_name_exists(held) && test::shm_name_exists(segment.name()) ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(manager_pid());
  EXPECT_TRUE(test::shm_name_exists(held));
  ours.send({});
  EXPECT_EQ(receive_soon(first.channel()).tag, "0");
  EXPECT_TRUE(all_go({held}));
}

// A user's manager has no say over another's segments, and does not fail over them.
TEST_F(System, AnotherUsersSegmentsStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: to be another user takes root";
  const auto manager = serve();
  const Holder mine = start_holder();
  constexpr uid_t kNobody = 65534;
  EXPECT_EQ(in_child([&] {
              if (::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
              return reap_segment(mine.names[0]) == ReapOutcome::foreign ? 0 : 1;
            }),
            0);
  mine.peer.kill();
  EXPECT_TRUE(all_go(mine.names));
}

TEST_F(System, AClientMayNotNameAnotherUsersSegments) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: to be another user takes root";
  const auto manager = serve();
  const Holder mine = start_holder();
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(socket().c_str(), 0666);
  constexpr uid_t kNobody = 65534;
  const std::string none = shm_directory::name_prefix() + "segment-" + std::string(32, 'a');
  EXPECT_EQ(in_child([&] {
              if (::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
              manager::Connection connection(socket(), in_seconds(kSoon));
              const auto hold = [&](const std::string& name) {
                (void)connection.ask({.verb = manager::Verb::hold, .names = {name}},
                                     in_seconds(kSoon));
              };
              hold(none);
              expect_error(
                  ErrorKind::limit_reached, [&] { hold(mine.names[0]); }, "another user's");
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  mine.peer.kill();
  EXPECT_TRUE(all_go(mine.names));
}

TEST_F(System, TakesItsSocketFromSystemd) {
  if (::access("/usr/bin/systemd-socket-activate", X_OK) != 0)
    GTEST_SKIP() << "SKIP: systemd-socket-activate is not installed";
  Program activator({"systemd-socket-activate", "--seqpacket", "--listen=" + socket(),
                     "--setenv=NO_COLOR=1", program(), "serve"});
  ASSERT_TRUE(test::soon([&] { return std::filesystem::exists(socket()); })) << activator.err();
  // The first to connect has it started; it was systemd that listened.
  const Holder holder = start_holder();
  EXPECT_EQ(manager_pid(), static_cast<std::uint32_t>(activator.pid())) << activator.err();
  holder.peer.kill();
  EXPECT_TRUE(all_go(holder.names));
  ::kill(activator.pid(), SIGTERM);
  EXPECT_EQ(activator.wait(in_seconds(kSoon)), 0) << activator.err();
  EXPECT_TRUE(std::filesystem::exists(socket())) << "the socket is systemd's to remove";
}

TEST_F(System, LogsWithPrioritiesForTheJournal) {
  ::setenv("JOURNAL_STREAM", "8:1", 1);
  const auto manager = serve();
  ::unsetenv("JOURNAL_STREAM");
  const Holder holder = start_holder();
  holder.peer.kill();
  EXPECT_TRUE(all_go(holder.names));
  EXPECT_TRUE(test::soon([&] {
    return manager->err().find("<6>removed " + holder.names[0]) != std::string::npos;
  })) << manager->err();
}

TEST_F(System, TellsSystemdWhenItIsReadyAndHowItIs) {
  const std::string path = folder_.file("notify");
  const Fd listening{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  const auto manager = serve();
  ::unsetenv("NOTIFY_SOCKET");
  std::string told;
  const auto hears = [&](const std::string& wanted) {
    const Deadline deadline = in_seconds(kSoon);
    std::array<char, 4096> part{};
    while (told.find(wanted) == std::string::npos) {
      if (!wait_ready(listening.get(), POLLIN, deadline)) return false;
      const ssize_t got = ::recv(listening.get(), part.data(), part.size(), 0);
      if (got > 0) told.append(part.data(), static_cast<std::size_t>(got)).append("\n");
    }
    return true;
  };
  EXPECT_TRUE(hears("STATUS=0 clients hold 0 names")) << told;
  EXPECT_TRUE(hears("READY=1")) << told;
  ::kill(manager->pid(), SIGHUP);
  EXPECT_TRUE(hears("RELOADING=1")) << told;
  ::kill(manager->pid(), SIGTERM);
  EXPECT_TRUE(hears("STOPPING=1")) << told;
}

}  // namespace
}  // namespace shoal
