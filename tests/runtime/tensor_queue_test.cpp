#include "shoal/runtime/ipc/tensor_queue.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/message.h"
#include "support/expect_error.h"
#include "support/peer.h"
#include "support/strategies.h"

namespace shoal {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

Tensor get_soon(TensorQueue& queue) {
  auto tensor = queue.get(in_seconds(kSoon));
  if (!tensor) throw std::runtime_error("nothing came");
  return *tensor;
}

class QueueUnder : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, QueueUnder, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(QueueUnder, BringsTheSameBytesToAnotherProcess) {
  TensorQueue to, from;
  Peer peer([&](Channel& channel) {
    const Tensor tensor = get_soon(to);
    tensor.at<float>(1) = 42;
    from.put(tensor.slice(0, 1, 2));
    (void)receive_soon(channel);
  });
  const Tensor tensor = Tensor::full({3}, 7);
  to.put(tensor);
  const Tensor back = get_soon(from);
  EXPECT_EQ(back.item<float>(), 42);
  EXPECT_EQ(back.storage(), tensor.storage()) << "a view that comes home is a view";
  EXPECT_EQ(tensor.at<float>(1), 42);
  peer.channel().send({});
}

TEST_P(QueueUnder, KeepsWhatAProducerPutBeforeItEnded) {
  for (const bool killed : {false, true}) {
    TensorQueue queue;
    {
      Peer producer([&](Channel&) {
        for (int i = 0; i < 10; ++i) queue.put(Tensor::full({1000}, i));
        if (killed) ::raise(SIGKILL);
      });
    }
    const TensorQueue only_get = queue.get_end();
    TensorQueue consumer = only_get;
    queue = consumer;  // no put end is left here
    for (int i = 0; i < 10; ++i) EXPECT_EQ(get_soon(consumer).at<float>(999), i);
    EXPECT_FALSE(consumer.get(in_seconds(kSoon)));
    EXPECT_TRUE(consumer.is_closed());
  }
}

TEST_P(QueueUnder, IsRelayedByAProcessThatEnds) {
  TensorQueue first, second;
  Peer relay([&](Channel&) { second.put(get_soon(first)); });
  {
    Peer producer([&](Channel&) { first.put(Tensor::full({1000}, 3)); });
  }
  EXPECT_EQ(relay.wait(), 0);
  EXPECT_EQ(get_soon(second).at<float>(999), 3) << "both its maker and its relay have ended";
}

TEST_P(QueueUnder, GivesEachItemToOneOfManyConsumers) {
  constexpr int kProducers = 3, kConsumers = 3, kEach = 200;
  TensorQueue work(16), results(1000);
  std::vector<Peer> peers;
  for (int p = 0; p < kProducers; ++p) {
    peers.emplace_back([&, p](Channel&) {
      { TensorQueue drop = std::move(results); }
      work = work.put_end();
      for (int i = 0; i < kEach; ++i) work.put(Tensor::full({64}, p * kEach + i));
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    peers.emplace_back([&](Channel&) {
      work = work.get_end();
      std::vector<double> last(kProducers, -1);
      while (auto tensor = work.get(in_seconds(kSoon))) {
        const double value = tensor->at<float>(63);
        auto& before = last[static_cast<std::size_t>(value) / kEach];
        if (value <= before) throw std::runtime_error("out of order");
        before = value;
        results.put(*tensor);
      }
      if (!work.is_closed()) throw std::runtime_error("the end was not noticed");
    });
  }
  work = TensorQueue(1);  // lets go of both ends
  std::set<float> seen;
  for (int i = 0; i < kProducers * kEach; ++i) seen.insert(get_soon(results).at<float>(0));
  EXPECT_EQ(seen.size(), kProducers * kEach);
  for (Peer& peer : peers) EXPECT_EQ(peer.wait(), 0);
}

TEST_P(QueueUnder, CarriesSeveralTensorsAndAPayload) {
  TensorQueue queue;
  const Tensor base = Tensor::arange(0, 12).reshape({3, 4});
  queue.put({.tag = "batch",
             .bytes = {std::byte{1}, std::byte{2}},
             .tensors = {base, base.transpose(), base.slice(1, 0, 4, 2), Tensor::empty({0, 100})}});
  const auto message = queue.get_message(in_seconds(kSoon));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tag, "batch");
  EXPECT_EQ(message->bytes.size(), 2u);
  ASSERT_EQ(message->tensors.size(), 4u);
  EXPECT_EQ(message->tensors[0].storage(), base.storage());
  EXPECT_EQ(message->tensors[1].storage(), base.storage());
  EXPECT_EQ(message->tensors[2].strides(), (Strides{4, 2}));
  EXPECT_EQ(message->tensors[3].shape(), (Shape{0, 100}));
}

TEST_P(QueueUnder, CarriesMoreDescriptorsThanAPacketTakes) {
  TensorQueue queue;
  Peer peer([&](Channel& channel) {
    const auto message = queue.get_message(in_seconds(kSoon));
    double total = 0;
    for (const Tensor& tensor : message.value().tensors) total += tensor.at<float>(0);
    channel.send({.tag = concat(message->tensors.size(), ' ', message->fds.size(), ' ', total)});
  });
  auto message = Message{.tag = "many"};
  for (int i = 0; i < 600; ++i) message.tensors.push_back(Tensor::full({10}, i));
  const auto [reading, writing] = make_socket_pair();
  for (int i = 0; i < 600; ++i) message.fds.push_back(reading.duplicate());
  queue.put(message);
  EXPECT_EQ(receive_soon(peer.channel()).tag, "600 600 179700");
}

TEST_P(QueueUnder, TravelsInAMessage) {
  TensorQueue queue;
  Peer peer([](Channel& channel) {
    Message message = receive_soon(channel);
    TensorQueue arrived = std::move(message.queues.at(0));
    if (!arrived.can_put() || arrived.can_get() || arrived.maxsize() != 128)
      throw std::runtime_error("another end than was sent");
    arrived.put(Tensor::full({4}, 9));
  });
  peer.channel().send({.queues = {queue.put_end()}});
  queue = queue.get_end();
  EXPECT_EQ(get_soon(queue).at<float>(3), 9);
  EXPECT_FALSE(queue.get(in_seconds(kSoon)));
  EXPECT_TRUE(queue.is_closed());
}

TEST_P(QueueUnder, KeepsABoundAndWaitsForRoom) {
  TensorQueue queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.put(Tensor::full({1}, i), in_ms(1)));
  EXPECT_FALSE(queue.put(Tensor::full({1}, 3), in_ms(5)));
  EXPECT_EQ(queue.size(), 3);
  std::thread producer([&] { EXPECT_TRUE(queue.put(Tensor::full({1}, 3), in_seconds(kSoon))); });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(get_soon(queue).item<float>(), i);
  producer.join();
  EXPECT_EQ(queue.size(), 0);
}

TEST(Queue, WaitsNoLongerThanItsDeadline) {
  TensorQueue queue(1);
  EXPECT_FALSE(queue.get(in_ms(1)));
  EXPECT_FALSE(queue.is_closed());
  queue.put(Tensor::ones({1}));
  EXPECT_FALSE(queue.put(Tensor::ones({1}), in_ms(1)));
}

TEST(Queue, WakesAProducerWhoseLastConsumerIsKilled) {
  TensorQueue queue(1);
  Peer consumer([&](Channel& channel) {
    queue = queue.get_end();
    channel.send({.tag = "ready"});
    ::pause();
  });
  (void)receive_soon(consumer.channel());
  queue = queue.put_end();
  queue.put(Tensor::ones({1}));
  std::thread killer([&] { ::kill(consumer.pid(), SIGKILL); });
  expect_error(ErrorKind::peer_gone, [&] { queue.put(Tensor::ones({1}), in_seconds(kSoon)); });
  killer.join();
}

TEST(Queue, WakesAConsumerWhoseLastProducerIsKilled) {
  TensorQueue queue;
  Peer producer([&](Channel& channel) {
    queue = queue.put_end();
    channel.send({.tag = "ready"});
    ::pause();
  });
  (void)receive_soon(producer.channel());
  queue = queue.get_end();
  std::thread killer([&] { ::kill(producer.pid(), SIGKILL); });
  EXPECT_FALSE(queue.get(in_seconds(kSoon)));
  EXPECT_TRUE(queue.is_closed());
  killer.join();
}

// Its count says full, but what was counted died with its consumer.
TEST(Queue, RecoversTheRoomThatAKilledConsumerHadTaken) {
  TensorQueue queue(1);
  queue.put(Tensor::ones({1}));
  std::array<std::byte, kMaxPacketBytes> packet;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  // As a consumer would that is killed right after the kernel gave it the item.
  ASSERT_EQ(receive_packet(queue.fd(), packet, nbytes, fds, in_seconds(kSoon)), Transfer::done);
  fds.clear();
  EXPECT_TRUE(queue.put(Tensor::full({1}, 2), in_seconds(kSoon)));
  EXPECT_EQ(get_soon(queue).item<float>(), 2);
}

TEST(Queue, TakesNothingMoreOnceItIsClosedButGivesWhatItHas) {
  TensorQueue queue;
  queue.put(Tensor::full({1}, 1));
  queue.get_end().close();
  expect_error(ErrorKind::peer_gone, [&] { queue.put(Tensor::ones({1})); });
  EXPECT_EQ(get_soon(queue).item<float>(), 1);
  EXPECT_FALSE(queue.get(in_seconds(kSoon)));
  EXPECT_TRUE(queue.is_closed());
}

TEST(Queue, ServesManyThreads) {
  constexpr int kThreads = 3, kEach = 300;
  TensorQueue queue(8);
  std::vector<std::thread> threads;
  std::atomic<long> sum{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) queue.put(Tensor::full({16}, t * kEach + i));
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) sum += static_cast<long>(get_soon(queue).at<float>(15));
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr long kAll = kThreads * kEach;
  EXPECT_EQ(sum, kAll * (kAll - 1) / 2);
}

TEST(Queue, RefusesMisuse) {
  expect_error(ErrorKind::invalid_argument, [] { TensorQueue queue(0); });
  TensorQueue queue;
  TensorQueue put = queue.put_end(), get = queue.get_end();
  expect_error(ErrorKind::invalid_argument, [&] { (void)put.get(in_ms(1)); });
  expect_error(ErrorKind::invalid_argument, [&] { get.put(Tensor::ones({1}), in_ms(1)); });
  expect_error(ErrorKind::invalid_argument, [&] { queue.put(Tensor()); });
  EXPECT_EQ(queue.size(), 0) << "what was refused takes no room";
  queue.put({.tag = "no tensor"});
  expect_error(ErrorKind::malformed, [&] { (void)queue.get(in_ms(100)); });
}

}  // namespace
}  // namespace shoal
