#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <vector>

#include "shoal/runtime/ipc/event.h"
#include "support/expect_error.h"
#include "support/peer.h"
#include "support/strategies.h"

// Events between processes, which may be killed.
namespace shoal {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

class EventAcross : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, EventAcross, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(EventAcross, WakesAProcessThatGotItThroughAChannel) {
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    const Event event(message.tensors.at(0));
    channel.send({.tag = "waiting"});
    const bool set = event.wait(in_seconds(kSoon));
    channel.send({.tag = set && message.tensors.at(1).item<float>() == 7 ? "seen" : "not seen"});
  });
  Event event;
  const Tensor data = Tensor::zeros({});
  peer.channel().send({.tensors = {event.tensor(), data}});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "waiting");
  data.fill_(7);
  event.set();
  EXPECT_EQ(receive_soon(peer.channel()).tag, "seen");
}

TEST_P(EventAcross, PoisonReachesOtherProcesses) {
  Event event;
  Peer peer([&](Channel& channel) {
    channel.send({.tag = "waiting"});
    expect_error(
        ErrorKind::worker_failed, [&] { (void)event.wait(in_seconds(kSoon)); }, "no data came");
    channel.send({.tag = testing::Test::HasFailure() ? "wrong" : "poisoned"});
  });
  EXPECT_EQ(receive_soon(peer.channel()).tag, "waiting");
  event.poison("no data came");
  EXPECT_EQ(receive_soon(peer.channel()).tag, "poisoned");
}

TEST_P(EventAcross, WhatAKilledProcessSetStaysSet) {
  Event event;
  Peer peer([&](Channel&) {
    event.set();
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(event.wait(in_seconds(kSoon)));
  EXPECT_EQ(peer.wait(), -SIGKILL);
}

TEST_P(EventAcross, KilledWaitersDoNoHarm) {
  Event event;
  for (int seed = 0; seed < 20; ++seed) {
    event.clear();
    Peer killed([&](Channel& channel) {
      channel.send({.tag = "waiting"});
      (void)event.wait(in_seconds(kSoon));
    });
    Peer waiter([&](Channel& channel) {
      channel.send({.tag = event.wait(in_seconds(kSoon)) ? "set" : "not set"});
    });
    EXPECT_EQ(receive_soon(killed.channel()).tag, "waiting");
    for (int i = 0; i < seed; ++i) ::sched_yield();
    killed.kill();
    // Half of the time it may still be about to die.
    if (seed % 2 == 0) (void)killed.wait();
    event.set();
    EXPECT_EQ(receive_soon(waiter.channel()).tag, "set");
  }
}

}  // namespace
}  // namespace shoal
