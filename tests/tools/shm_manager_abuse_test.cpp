#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/shm/manager_address.h"
#include "tools/manager_fixture.h"

// Clients that misbehave, while others go on with their work and notice nothing.
namespace shoal {
namespace {

using manager::encode;
using manager::Verb;
using test::kNamed;
using test::kSoon;
using test::Peer;
using test::receive_soon;

using Bytes = std::vector<std::byte>;

// Makes and drops segments until it is told to stop; then says how many, or what went wrong.
Peer start_worker() {
  return Peer([](Channel& channel) {
    int made = 0;
    try {
      for (; !channel.receive(in_ms(0)); ++made) const Segment segment(100, 1, kNamed);
      channel.send({.tag = made > 0 ? "well" : "idle"});
    } catch (const Error& error) {
      channel.send({.tag = error.what()});
    }
    (void)receive_soon(channel);
  });
}

class Abuse : public test::WithManager {
 protected:
  void SetUp() override {
    manager_ = serve({"--log-level", "error"});
    for (int i = 0; i < 8; ++i) workers_.push_back(start_worker());
  }
  void TearDown() override {
    for (Peer& worker : workers_) {
      worker.channel().send({});
      EXPECT_EQ(receive_soon(worker.channel()).tag, "well");
      worker.channel().send({});
      EXPECT_EQ(worker.wait(), 0);
    }
    EXPECT_EQ(manager_pid(), static_cast<std::uint32_t>(manager_->pid())) << manager_->err();
  }

  [[nodiscard]] Fd connect() const {
    Fd socket = manager::connect_to(this->socket(), in_seconds(kSoon));
    EXPECT_TRUE(static_cast<bool>(socket));
    return socket;
  }

  std::unique_ptr<Program> manager_;
  std::vector<Peer> workers_;
};

std::vector<Bytes> good_frames() {
  const std::string name = shm_directory::name_prefix() + "segment-" + std::string(32, 'a');
  return {encode({.verb = Verb::hello, .pid = 1}),
          encode({.verb = Verb::hold, .names = {name}}),
          encode({.verb = Verb::release, .names = {name, name}}),
          encode({.verb = Verb::report}),
          encode({.verb = Verb::refused, .reason = "why"}),
          encode({.verb = Verb::done})};
}

Bytes mutated(Bytes frame, std::mt19937& random) {
  for (auto times = random() % 4 + 1; times > 0; --times) {
    switch (random() % 3) {
      case 0:
        frame[random() % frame.size()] = std::byte(random());
        break;
      case 1:
        frame.resize(random() % frame.size() + 1);
        break;
      default:
        frame.push_back(std::byte(random()));
    }
  }
  return frame;
}

TEST_F(Abuse, ByAHundredThousandRandomAndMutatedFrames) {
  std::mt19937 random(7);
  const std::vector<Bytes> good = good_frames();
  Fd socket = connect();
  Bytes answer(manager::kMaxFrame);
  for (int i = 0; i < 100'000; ++i) {
    Bytes frame(random() % 200 + 1);
    if (random() % 2 == 0) {
      for (std::byte& byte : frame) byte = std::byte(random());
    } else {
      frame = mutated(good[random() % good.size()], random);
    }
    // A descriptor now and then, which nobody asked for.
    const int fd = socket.get();
    const auto fds = random() % 16 == 0 ? std::span(&fd, 1) : std::span<const int>();
    try {
      ASSERT_EQ(send_packet(socket.get(), frame, fds, in_seconds(kSoon)), Transfer::done);
    } catch (const Error& error) {
      if (error.errno_value() == EPERM) continue;  // a kernel that lets no descriptors through
      ASSERT_EQ(to_string(error.kind()), to_string(ErrorKind::peer_gone)) << error.what();
      socket = connect();
      continue;
    }
    while (::recv(socket.get(), answer.data(), answer.size(), MSG_DONTWAIT) > 0) {
    }
  }
}

TEST_F(Abuse, ByOneThatNeverReadsItsAnswers) {
  const Fd socket = connect();
  const Bytes hello = good_frames()[0];
  // Until it is the manager that has no room for more.
  while (::send(socket.get(), hello.data(), hello.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(manager_pid());
}

TEST_F(Abuse, ByOneThatFloods) {
  Peer flooder([this](Channel& channel) {
    manager::Connection connection(socket(), in_seconds(kSoon));
    while (!channel.receive(in_ms(0)))
      for (int i = 0; i < 1000; ++i)
        (void)connection.ask({.verb = Verb::report}, in_seconds(kSoon));
    channel.send({});
  });
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(manager_pid());
  flooder.channel().send({});
  (void)receive_soon(flooder.channel());
  EXPECT_EQ(flooder.wait(), 0);
}

// What nobody holds any more goes all the same, while others keep the manager busy with names, of
// segments that there are and that there are not.
TEST_F(Abuse, ByThoseWhoHoldAndReleaseWithoutAnEnd) {
  const test::Holder orphan = test::start_holder();
  std::vector<Peer> flooders;
  for (int i = 0; i < 4; ++i) {
    flooders.emplace_back([this](Channel& channel) {
      const Segment own(100, 1, kNamed);
      std::vector<std::string> names;
      for (std::size_t digit = 0; digit < manager::kMostNames - 1; ++digit)
        names.push_back(segment_name(shm_directory::name_prefix(), SegmentId::random()));
      names.push_back(own.name());
      std::vector<std::unique_ptr<manager::Connection>> connections;
      for (int j = 0; j < 5; ++j)
        connections.push_back(std::make_unique<manager::Connection>(socket(), in_seconds(kSoon)));
      bool told = false;
      while (!channel.receive(in_ms(0))) {
        for (const auto& connection : connections)
          for (const Verb verb : {Verb::hold, Verb::release})
            (void)connection->ask({.verb = verb, .names = names}, in_seconds(kSoon));
        if (!std::exchange(told, true)) channel.send({});
      }
    });
  }
  for (Peer& flooder : flooders) (void)receive_soon(flooder.channel());
  orphan.peer.kill();
  EXPECT_TRUE(test::all_go(orphan.names));
  EXPECT_TRUE(manager_pid());
  for (Peer& flooder : flooders) flooder.channel().send({});
  for (Peer& flooder : flooders) EXPECT_EQ(flooder.wait(), 0);
}

TEST_F(Abuse, ByThoseWhoConnectAndSayNothing) {
  std::vector<Fd> silent;
  for (int i = 0; i < 500; ++i) silent.push_back(connect());
  EXPECT_TRUE(manager_pid());
}

TEST_F(Abuse, ByNamesThatAreNoneOfItsBusiness) {
  const std::string other = folder_.file("precious");
  write_file(other, "keep");
  const std::string file = "/dev/shm/" + shm_directory::name_prefix() + "notes";
  write_file(file, "keep");
  for (const std::string& name :
       {std::string("../tmp/x"), shm_directory::name_prefix() + "notes", other}) {
    EXPECT_THROW((void)encode({.verb = Verb::hold, .names = {name}}), Error);
    // As a client would that is not ours.
    Bytes frame = good_frames()[1];
    const std::size_t at = frame.size() - (shm_directory::name_prefix().size() + 40);
    std::ranges::copy(std::as_bytes(std::span(name)),
                      frame.begin() + static_cast<std::ptrdiff_t>(at));
    manager::Connection connection(socket(), in_seconds(kSoon));
    const Fd raw = connect();
    const Bytes hello = good_frames()[0];
    ASSERT_EQ(send_packet(raw.get(), hello, {}, in_seconds(kSoon)), Transfer::done);
    ASSERT_EQ(send_packet(raw.get(), frame, {}, in_seconds(kSoon)), Transfer::done);
    Bytes answer(manager::kMaxFrame);
    std::size_t nbytes = 0;
    std::vector<Fd> none;
    for (const Verb verb : {Verb::welcome, Verb::refused}) {
      ASSERT_EQ(receive_packet(raw.get(), answer, nbytes, none, in_seconds(kSoon)), Transfer::done);
      EXPECT_EQ(manager::decode(std::span(answer).first(nbytes)).verb, verb);
    }
  }
  EXPECT_EQ(read_file(file), "keep");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shoal
