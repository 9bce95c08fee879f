#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "shoal/runtime/shm/manager_address.h"
#include "support/expect_error.h"
#include "support/in_child.h"
#include "tools/manager_fixture.h"

// The manager at work: what killed processes leave goes, and nothing else does.
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

using Serve = test::WithManager;

TEST_F(Serve, RemovesWhatAKilledProcessLeft) {
  const auto manager = serve();
  const Holder victim = start_holder(3), other = start_holder(2);
  EXPECT_TRUE(all_exist(victim.names));
  victim.peer.kill();
  EXPECT_TRUE(all_go(victim.names));
  EXPECT_TRUE(all_exist(other.names));
}

TEST_F(Serve, KeepsWhatAnotherProcessHoldsAndRemovesItWithThatOne) {
  const auto manager = serve();
  auto [giving, taking] = Channel::pair();  // not by way of us, who would hold it, too
  Peer maker([&giving = giving](Channel& channel) {
    const Tensor tensor = Tensor::full_shared({1000}, 5, DType::f32, kNamed);
    giving.send({.tensors = {tensor}});
    channel.send({.tag = tensor.storage()->block()->segment_name()});
    (void)receive_soon(channel);
  });
  Peer holder([&taking = taking](Channel& channel) {
    const Message kept = receive_soon(taking);
    channel.send({.tag = "kept"});
    (void)receive_soon(channel);
    channel.send({.tag = kept.tensors.at(0).at<float>(999) == 5 ? "intact" : "lost"});
    (void)receive_soon(channel);
  });
  const std::string name = receive_soon(maker.channel()).tag;
  EXPECT_EQ(receive_soon(holder.channel()).tag, "kept");
  maker.kill();
  (void)maker.wait();
  holder.channel().send({});
  EXPECT_EQ(receive_soon(holder.channel()).tag, "intact");
  EXPECT_TRUE(test::shm_name_exists(name));
  holder.kill();
  EXPECT_TRUE(all_go({name}));
}

// The message is the last holder: it goes with the socket, which tells nobody.
TEST_F(Serve, RemovesWhatALostMessageHeld) {
  const auto manager = serve();
  auto [ours, theirs] = Channel::pair();
  Peer sender([&theirs = theirs](Channel& channel) {
    const Tensor tensor = Tensor::full_shared({1000}, 5, DType::f32, kNamed);
    theirs.send({.tensors = {tensor}});
    channel.send({.tag = tensor.storage()->block()->segment_name()});
    (void)receive_soon(channel);
  });
  { const Channel closed = std::move(theirs); }
  const std::string name = receive_soon(sender.channel()).tag;
  sender.kill();
  (void)sender.wait();
  // It has had its look at the sender's segments when it has answered a client that came later.
  EXPECT_TRUE(manager_pid());
  EXPECT_TRUE(test::shm_name_exists(name));
  { const Channel closed = std::move(ours); }
  EXPECT_TRUE(all_go({name}));
}

TEST_F(Serve, NoticesTheEndOfAForkedChildOfAClient) {
  const auto manager = serve();
  Peer parent([](Channel& channel) {
    const Tensor tensor = Tensor::full_shared({1000}, 5, DType::f32, kNamed);
    const pid_t child = ::fork();
    if (child == 0) {
      const Fd ended = open_pidfd(::getppid());
      (void)wait_ready(ended.get(), POLLIN, kForever);
      ::pause();
    }
    channel.send({.tag = tensor.storage()->block()->segment_name(),
                  .bytes = std::vector<std::byte>(static_cast<std::size_t>(child))});
    (void)receive_soon(channel);
  });
  const Message told = receive_soon(parent.channel());
  const auto child = static_cast<pid_t>(told.bytes.size());
  const Fd child_ended = open_pidfd(child);
  parent.kill();
  (void)parent.wait();
  EXPECT_TRUE(manager_pid());
  EXPECT_TRUE(test::shm_name_exists(told.tag));
  signal_process(child_ended, SIGKILL);
  EXPECT_TRUE(all_go({told.tag}));
}

// 500 segments of 50 processes; the manager does not see the end of half of them.
TEST_F(Serve, FindsAfterItsOwnDeathWhatBecameOrphanedMeanwhile) {
  auto manager = serve();
  std::vector<Holder> killed, alive;
  for (int i = 0; i < 25; ++i) {
    killed.push_back(start_holder(10));
    alive.push_back(start_holder(10));
  }
  ::kill(manager->pid(), SIGKILL);
  EXPECT_EQ(manager->wait(in_seconds(kSoon)), -SIGKILL);
  for (Holder& holder : killed) holder.peer.kill();
  for (Holder& holder : killed) (void)holder.peer.wait();
  for (const Holder& holder : killed) EXPECT_TRUE(all_exist(holder.names));
  manager = serve();
  for (const Holder& holder : killed) EXPECT_TRUE(all_go(holder.names));
  for (const Holder& holder : alive) EXPECT_TRUE(all_exist(holder.names));
  // Those who live have not come back to the new one yet; it finds their end nonetheless.
  for (Holder& holder : alive) holder.peer.kill();
  for (const Holder& holder : alive) EXPECT_TRUE(all_go(holder.names));
}

TEST_F(Serve, ClientsComeBackToTheNextManagerByThemselves) {
  auto manager = serve();
  Peer client([](Channel& channel) {
    std::vector<std::unique_ptr<Segment>> held;
    for (;;) {
      held.push_back(std::make_unique<Segment>(100, 1, kNamed));
      channel.send({.tag = held.back()->name()});
      if (receive_soon(channel).tag == "end") return;
    }
  });
  std::vector<std::string> names{receive_soon(client.channel()).tag};
  ::kill(manager->pid(), SIGKILL);
  (void)manager->wait(in_seconds(kSoon));
  manager = serve();
  client.channel().send({});
  names.push_back(receive_soon(client.channel()).tag);
  const auto known = clients();
  const auto same =
      std::ranges::find(known, static_cast<std::uint32_t>(client.pid()), &manager::Client::pid);
  ASSERT_NE(same, known.end());
  EXPECT_GE(same->holds, 2U);
  client.channel().send({.tag = "end"});
  EXPECT_EQ(client.wait(), 0);
  EXPECT_TRUE(all_go(names));
}

TEST_F(Serve, ADyingReaderDestroysNothing) {
  const auto manager = serve();
  auto [giving, taking] = Channel::pair();
  Peer maker([&giving = giving](Channel& channel) {
    const Tensor tensor = Tensor::full_shared({1000}, 5, DType::f32, kNamed);
    channel.send({.tag = tensor.storage()->block()->segment_name()});
    for (int i = 0; i < 2; ++i) giving.send({.tensors = {tensor}});
    (void)receive_soon(channel);
  });
  const std::string name = receive_soon(maker.channel()).tag;
  for (int i = 0; i < 2; ++i) {
    Peer reader([&taking = taking](Channel& channel) {
      const Message message = receive_soon(taking);
      channel.send({.tag = message.tensors.at(0).at<float>(5) == 5 ? "read" : "lost"});
      (void)receive_soon(channel);
    });
    EXPECT_EQ(receive_soon(reader.channel()).tag, "read");
    reader.kill();
    (void)reader.wait();
    EXPECT_TRUE(manager_pid());
    EXPECT_TRUE(test::shm_name_exists(name));
  }
  maker.channel().send({});
  EXPECT_EQ(maker.wait(), 0);
}

TEST_F(Serve, IsStartedByTheLibraryOnceForAHundredProcesses) {
  std::vector<Peer> peers;
  peers.reserve(100);
  for (int i = 0; i < 100; ++i) {
    peers.emplace_back([this](Channel& channel) {
      (void)receive_soon(channel);  // all at once
      const Segment segment(100, 1, kNamed);
      channel.send({.tag = std::to_string(manager_pid().value())});
      (void)receive_soon(channel);
    });
  }
  for (Peer& peer : peers) peer.channel().send({});
  std::set<std::string> managers;
  for (Peer& peer : peers) managers.insert(receive_soon(peer.channel()).tag);
  EXPECT_EQ(managers.size(), 1U);
  for (Peer& peer : peers) peer.channel().send({});
  for (Peer& peer : peers) EXPECT_EQ(peer.wait(), 0);
}

TEST_F(Serve, OutlivesTheProcessGroupThatStartedIt) {
  auto [ours, theirs] = Channel::pair();
  Peer leader([&theirs = theirs](Channel& channel) {
    ::setpgid(0, 0);
    const Segment segment(100, 1, kNamed);
    const pid_t child = ::fork();
    const Segment another(100, 1, kNamed);
    channel.send({.tag = child == 0 ? another.name() : segment.name()});
    if (child != 0) theirs.send({.tag = another.name()});
    (void)receive_soon(channel);
    ::pause();
  });
  std::vector<std::string> names;
  for (int i = 0; i < 2; ++i) names.push_back(receive_soon(leader.channel()).tag);
  names.push_back(receive_soon(ours).tag);
  ::kill(-leader.pid(), SIGKILL);
  EXPECT_TRUE(all_go(names));
  EXPECT_TRUE(manager_pid());
}

// It may outlive its starter for long, and nothing of the starter's may.
TEST_F(Serve, APrivateOneInheritsNothing) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd reading{ends[0]};
  Fd writing{ends[1]};
  EXPECT_EQ(in_child([] {
              const Segment segment(100, 1, kNamed);
              return 0;
            }),
            0);
  writing.reset();
  EXPECT_TRUE(wait_ready(reading.get(), POLLIN, in_seconds(kSoon))) << "nobody has the other end";
  EXPECT_TRUE(manager_pid());
}

TEST_F(Serve, IsStartedWhereChildrenAreWaitedForByNobody) {
  const auto start = [] {
    ::signal(SIGCHLD, SIG_IGN);
    const Segment segment(100, 1, kNamed);
    return 0;
  };
  const std::string bad =
      write_file(programs_.file("bad"), "#!/bin/sh\necho no luck >&2; exit 1\n");
  ::chmod(bad.c_str(), 0700);
  ::setenv("SHOAL_MANAGER_PROGRAM", bad.c_str(), 1);
  EXPECT_EQ(in_child([&] {
              expect_error(ErrorKind::system, start, bad, "no luck");
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  ::setenv("SHOAL_MANAGER_PROGRAM", program().c_str(), 1);
  EXPECT_EQ(in_child(start), 0);
}

TEST_F(Serve, ForgetsNothingWhenItIsOutOfDescriptors) {
  const auto manager = serve();
  const rlimit few{64, 64};
  ASSERT_EQ(::prlimit(manager->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  const Holder victim = start_holder(3);
  std::vector<Fd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(manager::connect_to(socket(), in_seconds(kSoon)));
  EXPECT_TRUE(
      test::soon([&] { return manager->err().find("Too many open files") != std::string::npos; }));
  victim.peer.kill();
  silent.clear();
  EXPECT_TRUE(all_go(victim.names));
}

TEST_F(Serve, EndsByItselfWhenThereIsNothingToWatch) {
  const auto manager = serve({"--idle-exit", "0.2"});
  {
    const Holder holder = start_holder();
    holder.peer.kill();
    EXPECT_TRUE(all_go(holder.names));
  }
  EXPECT_EQ(manager->wait(in_seconds(kSoon)), 0) << manager->err();
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Serve, LeavesNothingOfItsOwnAtSigterm) {
  const auto manager = serve();
  Holder holder = start_holder();
  ::kill(manager->pid(), SIGTERM);
  EXPECT_EQ(manager->wait(in_seconds(kSoon)), 0) << manager->err();
  EXPECT_TRUE(folder_.names().empty());
  EXPECT_TRUE(all_exist(holder.names));
  holder.peer.channel().send({});
  EXPECT_EQ(holder.peer.wait(), 0);
}

TEST_F(Serve, IsTheOnlyOneAtItsSocket) {
  const auto manager = serve();
  Program second({SHM_MANAGER, "serve"});
  EXPECT_EQ(second.wait(in_seconds(kSoon)), 1);
  EXPECT_NE(second.err().find("listens there already"), std::string::npos) << second.err();
}

TEST_F(Serve, ThatCannotBeStartedIsAnErrorThatSaysWhy) {
  const std::string program = write_file(folder_.file("no-manager"), "#!/bin/false\n");
  ::setenv("SHOAL_MANAGER_PROGRAM", program.c_str(), 1);
  const auto attempt = [] { const Segment segment(100, 1, kNamed); };
  const auto refuses = [&](const std::string& why) {
    return in_child([&] {
      expect_error(ErrorKind::system, attempt, program, why, "SHOAL_MANAGER=off");
      return testing::Test::HasFailure() ? 1 : 0;
    });
  };
  EXPECT_EQ(refuses("Permission denied"), 0);
  write_file(program, "#!/bin/sh\necho 'a library is missing' >&2; exit 127\n");
  ::chmod(program.c_str(), 0700);
  EXPECT_EQ(refuses("a library is missing"), 0);
  write_file(program, "#!/bin/sh\nexit 0\n");
  EXPECT_NE(in_child([&] { return attempt(), 0; }), 0) << "one that starts nothing";
  ::setenv("SHOAL_MANAGER", "off", 1);
  EXPECT_EQ(in_child([&] { return attempt(), 0; }), 0) << "without, if the user says so";
  ::setenv("SHOAL_MANAGER", socket().c_str(), 1);
  EXPECT_TRUE(shm_directory::list(shm_directory::name_prefix()).empty());
}

TEST_F(Serve, ASilentManagerIsAnErrorAndNoHang) {
  const auto manager = serve();
  ::kill(manager->pid(), SIGSTOP);
  EXPECT_EQ(in_child([] {
              expect_error(ErrorKind::timed_out, [] { const Segment segment(100, 1, kNamed); });
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  ::kill(manager->pid(), SIGCONT);
}

TEST_F(Serve, WhatIsOverTheLimitsIsRefusedAndSaidSo) {
  const auto manager = serve({"--max-names", "2", "--max-clients", "2"});
  EXPECT_EQ(in_child([] {
              const Segment one(100, 1, kNamed), two(100, 1, kNamed);
              expect_error(
                  ErrorKind::limit_reached, [] { const Segment three(100, 1, kNamed); },
                  "--max-names");
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  const Holder one = start_holder(), two = start_holder();
  EXPECT_EQ(in_child([] {
              expect_error(
                  ErrorKind::limit_reached, [] { const Segment three(100, 1, kNamed); },
                  "--max-clients");
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST_F(Serve, ReadsItsLimitsAgainAtSighup) {
  const std::string config = write_file(folder_.file("limits"), "max-names = 1\n");
  const auto manager = serve({"--config", config});
  const auto two_segments = [] {
    const Segment one(100, 1, kNamed), two(100, 1, kNamed);
    return 0;
  };
  EXPECT_NE(in_child(two_segments), 0);
  write_file(config, "max-names = 2\n");
  ::kill(manager->pid(), SIGHUP);
  EXPECT_TRUE(test::soon([&] { return manager->err().find("again") != std::string::npos; }));
  EXPECT_EQ(in_child(two_segments), 0);
  write_file(config, "max-names = many\n");
  ::kill(manager->pid(), SIGHUP);
  EXPECT_TRUE(
      test::soon([&] { return manager->err().find("keeping the limits") != std::string::npos; }));
  EXPECT_EQ(in_child(two_segments), 0);
  end_manager(SIGTERM);
  Program refused({SHM_MANAGER, "serve", "--config", config});
  EXPECT_EQ(refused.wait(in_seconds(kSoon)), 1);
}

// Its file is gone, its memory is not, and the end is no error.
TEST_F(Serve, AMissingFileIsNoMatter) {
  const auto manager = serve();
  EXPECT_EQ(in_child([] {
              const Tensor tensor = Tensor::full_shared({1000}, 5, DType::f32, kNamed);
              std::filesystem::remove("/dev/shm/" + tensor.storage()->block()->segment_name());
              const Tensor another = Tensor::full_shared({1000}, 6, DType::f32, kNamed);
              return tensor.at<float>(999) == 5 && another.at<float>(999) == 6 ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(manager_pid());
}

}  // namespace
}  // namespace shoal
