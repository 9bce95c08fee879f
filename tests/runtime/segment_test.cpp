#include "shoal/runtime/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "support/in_child.h"
#include "support/scratch_directory.h"
#include "support/shm_names.h"
#include "support/strategies.h"

namespace shoal {
namespace {

using test::shm_name_exists;

constexpr std::size_t kSize = 10'000;

ErrorKind kind_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::system;
}

// A header as another process might write it, over memory that is sealed as `seals` say.
Fd memory_with(const SegmentHeader& header, off_t size, int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
  Fd memory{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(::ftruncate(memory.get(), size), 0);
  EXPECT_GE(::pwrite(memory.get(), &header, sizeof header, 0), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

SegmentHeader good_header(const SegmentId& id) {
  return {.magic = kSegmentMagic,
          .layout_version = kSegmentLayoutVersion,
          .strategy = 0,
          .id = id,
          .nbytes = 100,
          .data_offset = data_offset_for(1),
          .blocks = 1,
          .creator_pid = 0,
          .reserved = 0};
}

constexpr off_t kGoodSize = data_offset_for(1) + 100;

class SegmentOf : public testing::TestWithParam<SharingStrategy> {};
INSTANTIATE_TEST_SUITE_P(Strategies, SegmentOf, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(SegmentOf, IsZeroedAlignedAndWritable) {
  const Segment segment(kSize, 3, GetParam());
  ASSERT_EQ(segment.nbytes(), kSize);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % kPageSize, 0u);
  EXPECT_TRUE(std::all_of(segment.data(), segment.data() + kSize,
                          [](std::byte b) { return b == std::byte{0}; }));
  std::memset(segment.data(), 7, kSize);
  EXPECT_EQ(segment.data()[kSize - 1], std::byte{7});
}

TEST_P(SegmentOf, OfNoBytesIsRefused) {
  EXPECT_EQ(kind_of([] { const Segment none(0, 1, GetParam()); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { const Segment none(1, 0, GetParam()); }), ErrorKind::invalid_argument);
}

TEST_P(SegmentOf, LargerThanAnyMemoryIsAnErrorThatSaysHowMuchWasWanted) {
  try {
    const Segment segment(std::numeric_limits<std::size_t>::max(), 1, GetParam());
    FAIL() << "created";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_space);
    EXPECT_NE(error.reason().find("wanted 16 EiB"), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty());
  }
}

// What a message carries for `blocks` of a segment.
struct Sent {
  Fd memory;
  FlightKind kind;
  Slot slot;
};
Sent send(Segment& segment, std::initializer_list<std::uint32_t> blocks) {
  const auto flight = segment.depart(std::span(blocks.begin(), blocks.size()));
  return {flight->memory.duplicate(), flight->kind, flight->slot};
}

TEST_P(SegmentOf, HasItsPagesReservedBeforeTheyAreTouched) {
  constexpr std::size_t kLarge = std::size_t{1} << 22;
  Segment segment(kLarge, 1, GetParam());
  struct stat about {};
  ASSERT_EQ(::fstat(send(segment, {0}).memory.get(), &about), 0);
  EXPECT_GE(static_cast<std::size_t>(about.st_blocks) * 512, kLarge);
}

TEST_P(SegmentOf, IsSharedWithWhoeverAttachesIt) {
  Segment ours(kSize, 3, GetParam());
  const Segment theirs(send(ours, {0}).memory, ours.id());
  EXPECT_NE(theirs.data(), ours.data());
  theirs.data()[5] = std::byte{9};
  EXPECT_EQ(ours.data()[5], std::byte{9});
  EXPECT_EQ(theirs.nbytes(), kSize);
  EXPECT_EQ(theirs.blocks(), 3u);
  EXPECT_EQ(theirs.strategy(), GetParam());
  EXPECT_NE(theirs.slot(), ours.slot());
  EXPECT_TRUE(ours.is_alive(theirs.slot()) && theirs.is_alive(ours.slot()));
}

TEST_P(SegmentOf, MayBeReadThroughAMappingThatTakesNoWrites) {
  Segment segment(kSize, 1, GetParam());
  segment.data()[7] = std::byte{3};
  EXPECT_EQ(segment.read_only_data()[7], std::byte{3});
  const auto write = [&segment] {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would make another end of it
    *const_cast<std::byte*>(segment.read_only_data()) = std::byte{1};
  };
  EXPECT_EXIT(write(), testing::KilledBySignal(SIGSEGV), "");
}

TEST_P(SegmentOf, PassesABlockFromHolderToHolder) {
  Segment ours(kSize, 3, GetParam());
  EXPECT_TRUE(ours.is_free(1));
  ours.hold(1);
  Sent sent = send(ours, {1});
  ours.let_go(1);
  EXPECT_FALSE(ours.is_free(1)) << "the message holds it";
  Segment theirs(sent.memory, ours.id());
  EXPECT_FALSE(theirs.arrive(0, sent.kind, sent.slot)) << "another block than the message holds";
  EXPECT_TRUE(theirs.arrive(1, sent.kind, sent.slot));
  EXPECT_FALSE(theirs.arrive(1, sent.kind, sent.slot)) << "a message is received once";
  sent.memory.reset();
  EXPECT_FALSE(ours.is_free(1));
  theirs.let_go(1);
  theirs.let_go(1);
  EXPECT_TRUE(ours.is_free(1));
  EXPECT_TRUE(ours.is_free(0) && ours.is_free(2));
}

TEST_P(SegmentOf, FindsThatAMessageWasLost) {
  Segment segment(kSize, 1, GetParam());
  segment.use(0);
  {
    const Sent lost = send(segment, {0});
    segment.close_flight();
    segment.strike_dead();
    EXPECT_FALSE(segment.is_free(0)) << "it may still be received";
  }
  segment.strike_dead();
  EXPECT_TRUE(segment.is_free(0));
}

TEST_P(SegmentOf, KeepsTheHoldOfEachMessageWithTheSameBlock) {
  Segment ours(kSize, 1, GetParam());
  Sent first = send(ours, {0}), second = send(ours, {0});
  Segment theirs(first.memory, ours.id());
  EXPECT_TRUE(theirs.arrive(0, first.kind, first.slot));
  theirs.let_go(0);
  EXPECT_FALSE(ours.is_free(0)) << "the second is on its way";
  EXPECT_TRUE(theirs.arrive(0, second.kind, second.slot));
  theirs.let_go(0);
  EXPECT_TRUE(ours.is_free(0));
}

// More messages at once than there are slots, from the owner and from somebody who sends on.
TEST_P(SegmentOf, CarriesAnyNumberOfMessages) {
  constexpr int kMany = 3000;
  Segment ours(kSize, 1, GetParam());
  ours.use(0);
  Segment theirs(send(ours, {0}).memory, ours.id());
  Segment last(send(ours, {0}).memory, ours.id());
  for (Segment* sender : {&ours, &theirs}) {
    std::vector<Sent> sent;
    for (int i = 0; i < kMany; ++i) sent.push_back(send(*sender, {0}));
    for (const Sent& message : sent) ASSERT_TRUE(last.arrive(0, message.kind, message.slot));
    last.let_go(0);
  }
  ours.close_flight();
  theirs.close_flight();
  ours.strike_dead();
  EXPECT_TRUE(ours.is_free(0));
}

TEST_P(SegmentOf, UsesItsSlotsAgainAfterManyMessages) {
  Segment ours(kSize, 80, GetParam());
  Segment theirs(send(ours, {0}).memory, ours.id());
  const auto pass = [](Segment& from, Segment& to, std::uint32_t block) {
    const Sent message = send(from, {block});
    ASSERT_TRUE(to.arrive(block, message.kind, message.slot));
    to.let_go(block);
  };
  for (std::uint32_t i = 0; i < 5000; ++i) {
    pass(ours, theirs, i % 80);
    pass(theirs, ours, i % 80);
  }
  EXPECT_TRUE(ours.is_free(7));
}

TEST_P(SegmentOf, KnowsWhetherItsOwnerIsGone) {
  auto ours = std::make_unique<Segment>(kSize, 1, GetParam());
  const Segment theirs(send(*ours, {0}).memory, ours->id());
  EXPECT_FALSE(theirs.owner_is_gone());
  EXPECT_FALSE(ours->owner_is_gone());
  ours.reset();
  EXPECT_TRUE(theirs.owner_is_gone());
}

TEST_P(SegmentOf, GivesItsMemoryBackWhenItIsRetiredThoughOthersMapIt) {
  Segment ours(std::size_t{1} << 20, 1, GetParam());
  const Sent sent = send(ours, {0});
  const Segment theirs(sent.memory, ours.id());
  ours.retire();
  EXPECT_TRUE(theirs.owner_is_gone());
  struct stat about {};
  ASSERT_EQ(::fstat(sent.memory.get(), &about), 0);
  EXPECT_LT(about.st_blocks * 512, 100'000);
  EXPECT_EQ(theirs.data()[5000], std::byte{0}) << "still no SIGBUS";
}

TEST(SegmentByDescriptor, CannotBeResized) {
  Segment segment(kSize, 1, SharingStrategy::file_descriptor);
  const Sent sent = send(segment, {0});
  EXPECT_EQ(::ftruncate(sent.memory.get(), 0), -1);
  EXPECT_EQ(::ftruncate(sent.memory.get(), 1 << 20), -1);
}

TEST(SegmentByDescriptor, RefusesMemoryThatCouldShrink) {
  const SegmentId id = SegmentId::random();
  const Fd open_ended = memory_with(good_header(id), kGoodSize, 0);
  EXPECT_EQ(kind_of([&] { const Segment attached(open_ended, id); }), ErrorKind::malformed);
}

TEST(SegmentByDescriptor, RefusesADescriptorThatIsNoMemory) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reading{ends[0]}, writing{ends[1]};
  EXPECT_EQ(kind_of([&] { const Segment attached(reading, SegmentId{}); }), ErrorKind::malformed);
}

TEST(SegmentByDescriptor, RefusesAnotherSegmentThanAnnounced) {
  Segment segment(kSize, 1, SharingStrategy::file_descriptor);
  const Sent sent = send(segment, {0});
  EXPECT_EQ(kind_of([&] { const Segment attached(sent.memory, SegmentId::random()); }),
            ErrorKind::malformed);
}

TEST(SegmentHeaders, FromElsewhereAreAcceptedWhenTheyAreRight) {
  const SegmentId id = SegmentId::random();
  EXPECT_EQ(Segment(memory_with(good_header(id), kGoodSize), id).nbytes(), 100u);
}

TEST(SegmentHeaders, OfAnotherVersionAreRefusedNamingBoth) {
  const SegmentId id = SegmentId::random();
  SegmentHeader header = good_header(id);
  header.layout_version = 99;
  try {
    const Segment attached(memory_with(header, kGoodSize), id);
    FAIL() << "attached";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::version_mismatch);
    EXPECT_NE(error.reason().find("layout 99, this one reads 2"), std::string::npos)
        << error.what();
  }
}

TEST(SegmentHeaders, ThatPromiseMoreThanTheFileHoldsAreRefused) {
  const SegmentId id = SegmentId::random();
  for (const std::uint64_t nbytes : {std::uint64_t{101}, UINT64_MAX, std::uint64_t{0}}) {
    SegmentHeader header = good_header(id);
    header.nbytes = nbytes;
    EXPECT_EQ(kind_of([&] { const Segment attached(memory_with(header, kGoodSize), id); }),
              ErrorKind::malformed);
  }
}

TEST(SegmentHeaders, InFilesTooShortForOneAreRefused) {
  const SegmentId id = SegmentId::random();
  for (const off_t size : {0, 1, 64, 4095}) {
    EXPECT_EQ(kind_of([&] { const Segment attached(memory_with(good_header(id), size), id); }),
              ErrorKind::malformed)
        << size;
  }
}

TEST(SegmentHeaders, WithNonsenseInAnyFieldAreRefusedOrHarmless) {
  const SegmentId id = SegmentId::random();
  for (const std::uint32_t blocks : {0u, 2u, 1000u, UINT32_MAX}) {
    SegmentHeader header = good_header(id);
    header.blocks = blocks;
    if (blocks == 2) continue;  // as many as fit the same page are a sound header
    EXPECT_EQ(kind_of([&] { const Segment attached(memory_with(header, kGoodSize), id); }),
              ErrorKind::malformed)
        << blocks;
  }
  SegmentHeader header = good_header(id);
  header.strategy = 7;
  EXPECT_EQ(kind_of([&] { const Segment attached(memory_with(header, kGoodSize), id); }),
            ErrorKind::malformed);
  header = good_header(id);
  header.data_offset = UINT64_MAX - 50;
  EXPECT_EQ(kind_of([&] { const Segment attached(memory_with(header, kGoodSize), id); }),
            ErrorKind::malformed);
}

TEST(SegmentByName, StandsUnderDevShmForItsUserAlone) {
  const Segment segment(kSize, 1, SharingStrategy::file_system);
  struct stat about {};
  ASSERT_EQ(::stat(("/dev/shm/" + segment.name()).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST(SegmentByName, DisappearsWithItsLastHolder) {
  auto ours = std::make_unique<Segment>(kSize, 1, SharingStrategy::file_system);
  const std::string name = ours->name();
  auto theirs = std::make_unique<Segment>(send(*ours, {0}).memory, ours->id());
  ours.reset();
  EXPECT_TRUE(shm_name_exists(name)) << "the creator's end is not the last holder's";
  EXPECT_EQ(theirs->nbytes(), kSize);
  theirs.reset();
  EXPECT_FALSE(shm_name_exists(name));
}

TEST(SegmentByName, StaysWhileAMessageHoldsIt) {
  auto segment = std::make_unique<Segment>(kSize, 1, SharingStrategy::file_system);
  const std::string name = segment->name();
  const SegmentId id = segment->id();
  segment->data()[0] = std::byte{5};
  Sent sent = send(*segment, {0});
  segment.reset();
  ASSERT_TRUE(shm_name_exists(name));
  {
    const Segment received(sent.memory, id);
    sent.memory.reset();
    EXPECT_EQ(received.data()[0], std::byte{5});
  }
  EXPECT_FALSE(shm_name_exists(name));
}

TEST(SegmentByName, SurvivesTheLossOfItsName) {
  const Segment segment(kSize, 1, SharingStrategy::file_system);
  ASSERT_EQ(::unlink(("/dev/shm/" + segment.name()).c_str()), 0);
  segment.data()[kSize - 1] = std::byte{1};
  EXPECT_EQ(segment.data()[kSize - 1], std::byte{1});
  // Its destruction finds nothing to remove, which is no error.
}

TEST(SegmentByName, DoesNotTakeAnothersNameAwayWhateverItsFileSays) {
  const Segment segment(kSize, 1, SharingStrategy::file_system);
  // The same contents in another file, which so claims to have the same name.
  const Fd forged = shm_directory::create_unnamed();
  const std::string contents = read_file("/dev/shm/" + segment.name());
  ASSERT_EQ(::pwrite(forged.get(), contents.data(), contents.size(), 0),
            static_cast<ssize_t>(contents.size()));
  { const Segment received(forged, segment.id()); }
  EXPECT_TRUE(shm_name_exists(segment.name()));
}

// Somebody who knows nothing of Shoal, with no other rights than its user's.
TEST(SegmentByName, IsNotEndedByAStrangerThatOpensAndClosesIt) {
  const Segment segment(kSize, 1, SharingStrategy::file_system);
  const std::string path = "/dev/shm/" + segment.name();
  EXPECT_EQ(in_child([&] {
              const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
              void* mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
              ::munmap(mapped, 4096);
              ::close(fd);
              return 0;
            }),
            0);
  EXPECT_TRUE(shm_name_exists(segment.name()));
}

}  // namespace
}  // namespace shoal
