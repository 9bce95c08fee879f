#include "shoal/runtime/ipc/channel.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/base/wire.h"
#include "shoal/runtime/tensor/ops.h"
#include "support/peer.h"
#include "support/shm_names.h"
#include "support/strategies.h"

namespace shoal {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

class ChannelUnder : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, ChannelUnder, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(ChannelUnder, TwoProcessesSeeTheSameBytes) {
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    message.tensors.at(0).at<float>(1, 2) = 42;
    channel.send({.tag = "written"});
    (void)receive_soon(channel);  // lives until the other side has looked
  });
  const Tensor tensor = Tensor::full({2, 3}, 7);
  ASSERT_TRUE(peer.channel().send({.tag = "take", .tensors = {tensor}}));
  EXPECT_TRUE(tensor.is_shared()) << "sending shares in place";
  EXPECT_EQ(receive_soon(peer.channel()).tag, "written");
  EXPECT_EQ(tensor.at<float>(1, 2), 42);
  EXPECT_EQ(tensor.at<float>(0, 0), 7);
  peer.channel().send({.tag = "done"});
  EXPECT_EQ(peer.wait(), 0);
}

TEST_P(ChannelUnder, BytesOutliveAKilledSender) {
  Peer peer([](Channel& channel) {
    channel.send({.tag = "last words", .tensors = {Tensor::full({4}, 7.0)}});
    ::raise(SIGKILL);
  });
  EXPECT_EQ(peer.wait(), -SIGKILL);
  const Message message = receive_soon(peer.channel());
  EXPECT_EQ(message.tensors.at(0).at<float>(3), 7);
  EXPECT_FALSE(peer.channel().receive(in_seconds(kSoon)));
  EXPECT_TRUE(peer.channel().peer_closed());
}

TEST_P(ChannelUnder, ATensorMayBeSentOn) {
  Peer last([](Channel& channel) {
    const Message message = receive_soon(channel);
    if (message.tensors.at(0).at<double>(0) != 2.5) throw std::runtime_error("wrong value");
    message.tensors.at(0).at<double>(0) = 3.5;
    channel.send({});
  });
  Peer first([](Channel& channel) {
    channel.send({.tensors = {Tensor::full({1}, 2.5, DType::f64)}});
    (void)channel.receive(in_seconds(kSoon));
  });
  const Message message = receive_soon(first.channel());
  first.channel().send({});
  EXPECT_EQ(first.wait(), 0) << "its maker has ended before it is sent on";
  last.channel().send({.tensors = message.tensors});
  (void)receive_soon(last.channel());
  EXPECT_EQ(message.tensors.at(0).at<double>(0), 3.5);
}

TEST_P(ChannelUnder, ViewsOfOneStorageArriveAsViewsOfOneStorage) {
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    const Tensor &base = message.tensors.at(0), &tail = message.tensors.at(1);
    const Tensor& turned = message.tensors.at(2);
    tail.at<float>(0, 0) = 50;
    const bool aliased = base.storage() == tail.storage() && base.storage() == turned.storage() &&
                         base.at<float>(1, 0) == 50 && turned.at<float>(0, 1) == 50 &&
                         turned.shape() == Shape{3, 4};
    channel.send({.tag = aliased ? "aliased" : "apart"});
  });
  const Tensor base = Tensor::zeros({4, 3});
  peer.channel().send({.tensors = {base, base.slice(0, 1, 4), base.transpose()}});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "aliased");
  EXPECT_EQ(base.at<float>(1, 0), 50);
}

TEST_P(ChannelUnder, ATensorThatComesHomeIsItself) {
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    channel.send({.tensors = message.tensors});
    channel.send({.tensors = message.tensors});
    (void)channel.receive(in_seconds(kSoon));
  });
  const Tensor tensor = Tensor::ones({8});
  peer.channel().send({.tensors = {tensor}});
  const Message first = receive_soon(peer.channel()), second = receive_soon(peer.channel());
  EXPECT_EQ(first.tensors.at(0).storage(), tensor.storage());
  EXPECT_EQ(second.tensors.at(0).storage(), tensor.storage());
}

TEST_P(ChannelUnder, EveryDtypeArrivesBitForBit) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = *dtype_from_wire(static_cast<std::uint64_t>(i));
    const Tensor tensor = Tensor::empty({3}, dtype);
    auto* bytes = static_cast<unsigned char*>(tensor.data_ptr());
    for (std::size_t k = 0; k < tensor.nbytes(); ++k)
      bytes[k] = static_cast<unsigned char>(dtype == DType::boolean ? k % 2 : 37 * k + 129);
    tensors.push_back(tensor);
  }
  const std::vector<std::byte> sent = [&] {
    std::vector<std::byte> bytes;
    for (const Tensor& t : tensors) {
      const auto* p = static_cast<const std::byte*>(t.data_ptr());
      bytes.insert(bytes.end(), p, p + t.nbytes());
    }
    return bytes;
  }();
  Peer peer([&](Channel& channel) {
    const Message message = receive_soon(channel);
    std::vector<std::byte> bytes;
    for (const Tensor& t : message.tensors) {
      const auto* p = static_cast<const std::byte*>(t.data_ptr());
      bytes.insert(bytes.end(), p, p + t.nbytes());
    }
    channel.send({.tag = bytes == sent ? "same" : "different"});
  });
  peer.channel().send({.tensors = tensors});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "same");
}

TEST_P(ChannelUnder, ATensorOfNoElementsKeepsItsShape) {
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    const Tensor& empty = message.tensors.at(0);
    channel.send({.tag = empty.shape() == Shape{0, 100} && empty.is_shared() ? "kept" : "lost"});
  });
  peer.channel().send({.tensors = {Tensor::empty({0, 100})}});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "kept");
}

TEST_P(ChannelUnder, CarriesMoreTensorsThanOnePacketTakes) {
  constexpr int kMany = 600;
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    double total = 0;
    for (const Tensor& tensor : message.tensors) total += tensor.item<float>();
    channel.send({.tag = concat(message.tensors.size(), " tensors, total ", total)});
  });
  std::vector<Tensor> tensors;
  for (int i = 0; i < kMany; ++i) tensors.push_back(Tensor::full({}, i));
  peer.channel().send({.tensors = tensors});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "600 tensors, total 179700");
}

TEST_P(ChannelUnder, NamesAreGoneOnceEveryHolderHasLetGo) {
  std::string name;
  {
    Peer peer([](Channel& channel) {
      (void)receive_soon(channel);
      channel.send({.tag = "got it"});
    });
    const Tensor tensor = Tensor::ones({1000});
    peer.channel().send({.tensors = {tensor}});
    name = tensor.storage()->block()->segment_name();
    (void)receive_soon(peer.channel());
    EXPECT_EQ(!name.empty() && test::shm_name_exists(name),
              GetParam() == SharingStrategy::file_system);
  }
  SegmentPool::instance().trim();
  if (name.empty()) return;
  EXPECT_FALSE(test::shm_name_exists(name));
}

TEST(Channel, CarriesLongPayloadsInOrder) {
  auto [left, right] = Channel::pair();
  std::vector<std::byte> payload(5'000'000);
  std::mt19937 engine(1);
  for (std::byte& b : payload) b = static_cast<std::byte>(engine());
  std::thread sender([&left = left, &payload] {
    left.send({.tag = "long", .bytes = payload});
    left.send({.tag = "short"});
  });
  const Message message = receive_soon(right);
  EXPECT_EQ(message.bytes, payload);
  EXPECT_EQ(receive_soon(right).tag, "short");
  sender.join();
}

TEST(Channel, CarriesDescriptors) {
  auto [left, right] = Channel::pair();
  const Fd file{::memfd_create("test", MFD_CLOEXEC)};
  ASSERT_EQ(::write(file.get(), "abc", 3), 3);
  Message message{.tag = "file", .tensors = {Tensor::full({}, 5)}};
  message.fds.push_back(file.duplicate());
  left.send(message);
  const Message got = receive_soon(right);
  ASSERT_EQ(got.fds.size(), 1u);
  std::array<char, 3> text{};
  EXPECT_EQ(::pread(got.fds[0].get(), text.data(), 3, 0), 3);
  EXPECT_EQ(std::string_view(text.data(), 3), "abc");
  EXPECT_EQ(got.tensors.at(0).item<float>(), 5);
}

TEST(Channel, IsPassedOnThroughAChannel) {
  auto [left, right] = Channel::pair();
  auto [near_end, far_end] = Channel::pair();
  Message message;
  message.fds.push_back(std::move(far_end).release_fd());
  left.send(message);
  Channel arrived(std::move(receive_soon(right).fds.at(0)));
  near_end.send({.tag = "through"});
  EXPECT_EQ(receive_soon(arrived).tag, "through");
}

TEST(Channel, GivesUpAtTheDeadline) {
  auto [left, right] = Channel::pair();
  EXPECT_FALSE(right.receive(in_ms(1)));
  EXPECT_FALSE(right.peer_closed());
  const Message message{.bytes = std::vector<std::byte>(50'000)};
  bool sent = true;
  for (int i = 0; i < 1000 && sent; ++i) sent = left.send(message, in_ms(1));
  EXPECT_FALSE(sent);
}

TEST(Channel, TellsTheSenderThatItsPeerIsGone) {
  auto ends = Channel::pair();
  { const Channel closed = std::move(ends.second); }
  try {
    ends.first.send({.tag = "anybody?"});
    FAIL() << "sent to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer_gone);
  }
}

TEST(Channel, RefusesAnUndefinedTensor) {
  auto [left, right] = Channel::pair();
  EXPECT_THROW(left.send({.tensors = {Tensor()}}), Error);
}

TEST(Channel, GivesWholeMessagesToManyThreads) {
  auto [left, right] = Channel::pair();
  constexpr int kThreads = 4, kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&left = left, t] {
      for (int i = 0; i < kEach; ++i)
        left.send({.tag = concat(t), .bytes = std::vector<std::byte>(70'000, std::byte(t))});
    });
  }
  std::array<int, kThreads> seen{};
  for (int i = 0; i < kThreads * kEach; ++i) {
    const Message message = receive_soon(right);
    const int t = std::stoi(message.tag);
    ++seen.at(static_cast<std::size_t>(t));
    EXPECT_EQ(message.bytes, std::vector<std::byte>(70'000, std::byte(t)));
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : seen) EXPECT_EQ(count, kEach);
}

TEST(Channel, GoesOnAfterABrokenPacket) {
  auto [left, right] = Channel::pair();
  const std::array<std::byte, 40> junk{};
  ASSERT_EQ(send_packet(left.fd(), junk, {}, kForever), Transfer::done);
  left.send({.tag = "sound"});
  EXPECT_THROW((void)right.receive(in_seconds(kSoon)), Error);
  EXPECT_EQ(receive_soon(right).tag, "sound");
}

TEST_P(ChannelUnder, ManyThreadsMaySendOnePrivateTensor) {
  for (int round = 0; round < 20; ++round) {
    const Tensor tensor = Tensor::full({1000}, round);
    std::vector<std::pair<Channel, Channel>> channels;
    for (int i = 0; i < 4; ++i) channels.push_back(Channel::pair());
    std::vector<std::thread> threads;
    for (auto& ends : channels)
      threads.emplace_back([&ends, &tensor] { ends.first.send({.tensors = {tensor}}); });
    for (std::thread& thread : threads) thread.join();
    for (auto& ends : channels)
      EXPECT_EQ(receive_soon(ends.second).tensors.at(0).storage(), tensor.storage());
  }
}

// What a hostile or broken sender might write.
TEST(Channel, SurvivesMutatedPackets) {
  std::vector<std::byte> good(4096);
  std::size_t size = 0;
  std::vector<Fd> good_fds;
  {
    auto [left, right] = Channel::pair();
    left.send({.tag = "seed",
               .bytes = std::vector<std::byte>(20),
               .tensors = {Tensor::ones({3, 4}), Tensor::zeros({2})}});
    ASSERT_EQ(receive_packet(right.fd(), good, size, good_fds, in_seconds(kSoon)), Transfer::done);
  }
  good.resize(size);
  std::mt19937 engine(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bad = good;
    for (unsigned n = engine() % 4 + 1; n > 0; --n)
      bad[engine() % bad.size()] = static_cast<std::byte>(engine());
    if (engine() % 4 == 0) bad.resize(engine() % bad.size() + 1);
    std::vector<int> fds;
    for (const Fd& fd : good_fds) fds.push_back(fd.get());
    if (engine() % 4 == 0) fds.resize(engine() % (fds.size() + 1));
    auto ends = Channel::pair();
    ASSERT_EQ(send_packet(ends.first.fd(), bad, fds, kForever), Transfer::done);
    { const Channel closed = std::move(ends.first); }
    try {
      (void)ends.second.receive(in_seconds(kSoon));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace shoal
