#include "shoal/runtime/shm/segment_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/tensor.h"
#include "support/expect_error.h"
#include "support/in_child.h"
#include "support/peer.h"
#include "support/shm_names.h"
#include "support/strategies.h"
#include "support/usage.h"

namespace shoal {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

constexpr std::size_t kMiB = std::size_t{1} << 20;

SegmentPool& pool() { return SegmentPool::instance(); }

// Each test starts with nothing cached.
class PoolOf : public testing::TestWithParam<SharingStrategy> {
 protected:
  PoolOf() { pool().trim(); }
  ~PoolOf() override {
    pool().set_options({});
    pool().trim();
  }
  [[nodiscard]] static std::shared_ptr<SharedBlock> block(std::size_t nbytes) {
    return pool().allocate(nbytes, GetParam());
  }
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, PoolOf, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(PoolOf, GivesBlocksOfAnySizeThatDoNotOverlap) {
  std::mt19937 engine(1);
  std::vector<std::shared_ptr<SharedBlock>> blocks;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t nbytes = std::size_t{1} << (engine() % 18);
    blocks.push_back(block(nbytes + engine() % nbytes));
    std::memset(blocks.back()->data(), i % 251, blocks.back()->nbytes());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()->data()) % 64, 0u);
  }
  for (int i = 0; i < 2000; ++i) {
    const auto& b = blocks[static_cast<std::size_t>(i)];
    ASSERT_TRUE(std::all_of(b->data(), b->data() + b->nbytes(), [i](std::byte x) {
      return x == std::byte(i % 251);
    })) << i;
  }
}

TEST_P(PoolOf, PacksManySmallBlocksIntoFewSegments) {
  std::vector<std::shared_ptr<SharedBlock>> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.push_back(block(4));
  const auto s = pool().statistics();
  EXPECT_LE(s.segments, 4u);
  EXPECT_EQ(s.live_blocks, 10'000u);
  EXPECT_GE(s.live_bytes, 40'000u);
}

TEST_P(PoolOf, HandsOutFirstWhatWasFreedLast) {
  auto first = block(kMiB), second = block(kMiB);
  const std::byte* where = second->data();
  first.reset();
  second.reset();
  EXPECT_EQ(block(kMiB - 100)->data(), where);
}

TEST_P(PoolOf, JoinsFreedBlocksForLargerOnes) {
  const auto before = pool().statistics().segments;
  for (std::size_t nbytes = 4096; nbytes <= kMiB / 2; nbytes *= 2) {
    std::vector<std::shared_ptr<SharedBlock>> blocks;
    for (std::size_t i = 0; i < kMiB / nbytes; ++i) blocks.push_back(block(nbytes));
  }
  EXPECT_EQ(pool().statistics().segments, before + 1);
}

TEST_P(PoolOf, ReusesALargeBlockForOneAlittleSmaller) {
  auto large = block(40 * kMiB);
  const std::byte* where = large->data();
  large.reset();
  EXPECT_EQ(block(37 * kMiB)->data(), where);
}

TEST_P(PoolOf, NeverHandsOutWhatAMessageHolds) {
  auto held = block(kMiB);
  const std::byte* where = held->data();
  std::vector<Departure> message = pool().depart(std::span(&held, 1));
  held.reset();
  const auto other = block(kMiB);
  EXPECT_NE(other->data(), where);
  pool().abandon(message);
  message.clear();
  EXPECT_EQ(block(kMiB)->data(), where);
}

TEST_P(PoolOf, RefusesHandlesThatNoMessageCanHave) {
  const auto sent = block(1000);
  constexpr std::uint32_t kMany = 1 << 20;  // more than the segment has
  const BlockHandle good{sent->index(), sent->offset(), sent->nbytes()};
  const BlockHandle bad[] = {
      {kMany, good.offset, good.nbytes},           {UINT32_MAX, good.offset, good.nbytes},
      {good.index + 1, good.offset, good.nbytes},  {good.index, UINT64_MAX - 63, good.nbytes},
      {good.index, good.offset + 64, good.nbytes}, {good.index, good.offset, 0},
      {good.index, good.offset, UINT64_MAX},       {good.index, good.offset, good.nbytes + 1},
  };
  for (const BlockHandle& handle : bad) {
    const std::vector<Departure> message = pool().depart(std::span(&sent, 1));
    const Flight& flight = *message.at(0).flight;
    const auto arrival =
        pool().arrive(sent->segment_id(), Fd(::dup(flight.memory.get())), flight.kind, flight.slot);
    arrival->expect(handle);
    arrival->expect(good);
    expect_error(
        ErrorKind::malformed, [&] { (void)arrival->take(handle); }, concat("block ", handle.index));
    EXPECT_EQ(arrival->take(good), sent);
  }
}

TEST_P(PoolOf, NeverHandsOutWhatAnotherProcessHolds) {
  Peer peer([](Channel& channel) {
    Message kept = receive_soon(channel);
    channel.send({.tag = "kept"});
    (void)receive_soon(channel);
    const bool intact = kept.tensors.at(0).at<float>(1000) == 5;
    kept = {};
    channel.send({.tag = intact ? "intact" : "overwritten"});
    (void)receive_soon(channel);
  });
  Tensor tensor = Tensor::full_shared({100'000}, 5);
  const void* where = tensor.data_ptr();
  peer.channel().send({.tensors = {tensor}});
  tensor = Tensor();
  EXPECT_EQ(receive_soon(peer.channel()).tag, "kept");
  for (int i = 0; i < 100; ++i) {
    const Tensor other = Tensor::full_shared({100'000}, i);
    ASSERT_NE(other.data_ptr(), where);
  }
  peer.channel().send({});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "intact");
  // Let go there, so one of the next is it.
  const Tensor one = Tensor::empty_shared({100'000}), two = Tensor::empty_shared({100'000});
  EXPECT_TRUE(one.data_ptr() == where || two.data_ptr() == where);
  peer.channel().send({});
}

TEST_P(PoolOf, ReusesWhatAKilledProcessHeld) {
  constexpr std::int64_t kCount = 10'000'000;  // 40 MB, which has its segment to itself
  const void* where = nullptr;
  {
    Peer peer([](Channel& channel) {
      const Message kept = receive_soon(channel);
      channel.send({.tag = "kept"});
      ::raise(SIGKILL);
    });
    const Tensor tensor = Tensor::empty_shared({kCount});
    where = tensor.data_ptr();
    peer.channel().send({.tensors = {tensor}});
    EXPECT_EQ(receive_soon(peer.channel()).tag, "kept");
  }
  EXPECT_EQ(Tensor::empty_shared({kCount}).data_ptr(), where);
}

TEST_P(PoolOf, ReusesWhatWasNeverReceived) {
  constexpr std::int64_t kCount = 10'000'000;
  const void* where = nullptr;
  {
    auto ends = Channel::pair();
    const Tensor tensor = Tensor::empty_shared({kCount});
    where = tensor.data_ptr();
    for (int i = 0; i < 5; ++i) ends.first.send({.tensors = {tensor}});
  }
  EXPECT_EQ(Tensor::empty_shared({kCount}).data_ptr(), where);
}

TEST_P(PoolOf, KeepsAForkedChildsBlocksFromItsParent) {
  Tensor tensor = Tensor::full_shared({1000}, 7);
  const void* where = tensor.data_ptr();
  Peer peer([&](Channel& channel) {
    (void)receive_soon(channel);
    const bool intact = tensor.at<float>(999) == 7;
    // And the other way round: it may send on what it inherited.
    channel.send({.tag = intact ? "intact" : "overwritten", .tensors = {tensor}});
    (void)receive_soon(channel);
  });
  tensor = Tensor();
  std::vector<Tensor> others;
  for (int i = 0; i < 500; ++i) others.push_back(Tensor::full_shared({1000}, i));
  peer.channel().send({});
  {
    const Message message = receive_soon(peer.channel());
    EXPECT_EQ(message.tag, "intact");
    EXPECT_EQ(message.tensors.at(0).data_ptr(), where);
  }
  peer.channel().send({});
  EXPECT_EQ(peer.wait(), 0);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(others[static_cast<std::size_t>(i)].at<float>(999), i);
}

TEST_P(PoolOf, OfAForkedChildGivesItsParentNothingToRegret) {
  const Tensor tensor = Tensor::full_shared({1000}, 7);
  EXPECT_EQ(in_child([&] {
              const Tensor inherited = tensor;
              // Its own memory is other memory.
              for (int i = 0; i < 100; ++i)
                if (Tensor::full_shared({1000}, i).data_ptr() == inherited.data_ptr()) return 1;
              return inherited.at<float>(0) == 7 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(tensor.at<float>(0), 7);
}

TEST_P(PoolOf, ReturnsMemoryWhenItIsTrimmedOrFullOfUnusedMemory) {
  for (int i = 0; i < 3; ++i) (void)block((20 + 8 * static_cast<std::size_t>(i)) * kMiB);
  EXPECT_GE(pool().statistics().cached_bytes, 60 * kMiB);
  pool().trim(40 * kMiB);
  EXPECT_LE(pool().statistics().cached_bytes, 40 * kMiB);
  pool().trim();
  EXPECT_EQ(pool().statistics().cached_bytes, 0u);
  EXPECT_EQ(pool().statistics().segments, 0u);
  pool().set_options({.max_cached_bytes = 10 * kMiB});
  (void)block(20 * kMiB);
  EXPECT_LE(pool().statistics().cached_bytes, 10 * kMiB);
}

TEST_P(PoolOf, LetsGoOfSegmentsWhoseOwnerIsGone) {
  const auto before = pool().statistics().attached_segments;
  {
    Peer peer([](Channel& channel) {
      channel.send({.tensors = {Tensor::full_shared({100}, 1)}});
      (void)receive_soon(channel);
    });
    Message message = receive_soon(peer.channel());
    EXPECT_EQ(pool().statistics().attached_segments, before + 1);
    message = {};
    pool().look_after_others(true);
    EXPECT_EQ(pool().statistics().attached_segments, before + 1)
        << "its owner may send more from it, so it stays mapped";
    peer.channel().send({});
    EXPECT_EQ(peer.wait(), 0);
    EXPECT_FALSE(peer.channel().receive(in_seconds(kSoon)));
    EXPECT_EQ(pool().statistics().attached_segments, before);
  }
}

TEST_P(PoolOf, CountsReuse) {
  const auto before = pool().statistics();
  for (int i = 0; i < 10; ++i) (void)block(1000);
  const auto after = pool().statistics();
  EXPECT_EQ(after.blocks_made - before.blocks_made, 10u);
  EXPECT_EQ(after.reuses - before.reuses, 9u);
}

TEST_P(PoolOf, TakesNoNewMemoryForWhatIsMadeAndDroppedForEver) {
  const auto cycle = [](int count) {
    for (int i = 0; i < count; ++i) {
      const Tensor tensor = Tensor::empty_shared({kMiB / 4});
      static_cast<float*>(tensor.data_ptr())[i % 1000] = 1;
    }
  };
  cycle(100);
  const long faults = test::minor_faults();
  const auto s = pool().statistics();
  cycle(1'000'000);
  if (!test::kSanitized) {
    EXPECT_LE(test::minor_faults() - faults, 20) << "some are the heap's";
  }
  EXPECT_EQ(pool().statistics().segments, s.segments);
  EXPECT_EQ(pool().statistics().cached_bytes, s.cached_bytes);
}

TEST_P(PoolOf, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 engine(static_cast<unsigned>(t));
      std::vector<std::shared_ptr<SharedBlock>> mine(16);
      for (int i = 0; i < 3000; ++i) {
        auto& slot = mine[engine() % mine.size()];
        if (slot != nullptr &&
            (slot->data()[0] != std::byte(t) || slot->data()[slot->nbytes() - 1] != std::byte(t)))
          ++wrong;
        slot = block(1 + engine() % 5000);
        std::memset(slot->data(), t, slot->nbytes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(PoolOf, HoldsAHundredThousandTensorsInFewDescriptorsAndMappings) {
  EXPECT_EQ(in_child([] {
              const rlimit few{.rlim_cur = 128, .rlim_max = 128};
              if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
              const int fds = test::open_descriptors(), maps = test::mappings();
              std::vector<Tensor> tensors;
              for (int i = 0; i < 100'000; ++i) tensors.push_back(Tensor::full_shared({1}, i));
              if (test::open_descriptors() - fds > 64) return 2;
              if (test::mappings() - maps > 256) return 3;
              for (int i = 0; i < 100'000; i += 37)
                if (tensors[static_cast<std::size_t>(i)].item<float>() != static_cast<float>(i))
                  return 4;
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace shoal
