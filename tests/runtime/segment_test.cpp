#include "shoal/runtime/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/process_token.h"
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

class SegmentOf : public testing::TestWithParam<SharingStrategy> {};
INSTANTIATE_TEST_SUITE_P(Strategies, SegmentOf, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(SegmentOf, IsZeroedAlignedAndWritable) {
  Segment segment = Segment::create(kSize, GetParam());
  ASSERT_EQ(segment.nbytes(), kSize);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % 64, 0u);
  EXPECT_TRUE(std::all_of(segment.data(), segment.data() + kSize,
                          [](std::byte b) { return b == std::byte{0}; }));
  std::memset(segment.data(), 7, kSize);
  EXPECT_EQ(segment.data()[kSize - 1], std::byte{7});
}

TEST_P(SegmentOf, MovesWithItsBytes) {
  Segment first = Segment::create(kSize, GetParam());
  first.data()[3] = std::byte{42};
  const SegmentId id = first.id();
  Segment second = std::move(first);
  Segment third = Segment::create(1, GetParam());
  third = std::move(second);
  EXPECT_EQ(third.id(), id);
  EXPECT_EQ(third.data()[3], std::byte{42});
}

TEST_P(SegmentOf, OfNoBytesIsRefused) {
  EXPECT_EQ(kind_of([] { (void)Segment::create(0, GetParam()); }), ErrorKind::invalid_argument);
}

TEST_P(SegmentOf, LargerThanAnyMemoryIsAnErrorThatSaysHowMuchWasWanted) {
  try {
    (void)Segment::create(std::numeric_limits<std::size_t>::max(), GetParam());
    FAIL() << "created";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_space);
    EXPECT_NE(error.reason().find("wanted 16 EiB"), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty());
  }
}

TEST_P(SegmentOf, HasItsPagesReservedBeforeTheyAreTouched) {
  constexpr std::size_t kLarge = std::size_t{1} << 22;
  Segment segment = Segment::create(kLarge, GetParam());
  struct stat about {};
  const std::string path = "/dev/shm/" + segment.name();
  ASSERT_EQ(GetParam() == SharingStrategy::file_descriptor ? ::fstat(segment.fd(), &about)
                                                           : ::stat(path.c_str(), &about),
            0);
  EXPECT_GE(static_cast<std::size_t>(about.st_blocks) * 512, kLarge);
}

TEST(SegmentByDescriptor, IsSharedWithWhoeverAttachesIt) {
  Segment ours = Segment::create(kSize, SharingStrategy::file_descriptor);
  Segment theirs = Segment::attach(Fd{::dup(ours.fd())}, ours.id());
  EXPECT_NE(theirs.data(), ours.data());
  theirs.data()[5] = std::byte{9};
  EXPECT_EQ(ours.data()[5], std::byte{9});
  EXPECT_EQ(theirs.nbytes(), kSize);
}

TEST(SegmentByDescriptor, CannotBeResized) {
  Segment segment = Segment::create(kSize, SharingStrategy::file_descriptor);
  EXPECT_EQ(::ftruncate(segment.fd(), 0), -1);
  EXPECT_EQ(::ftruncate(segment.fd(), 1 << 20), -1);
}

TEST(SegmentByDescriptor, RefusesMemoryThatCouldShrink) {
  Fd open_ended{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(open_ended.get(), 1 << 20), 0);
  EXPECT_EQ(kind_of([&] { (void)Segment::attach(std::move(open_ended), SegmentId{}); }),
            ErrorKind::malformed);
}

TEST(SegmentByDescriptor, RefusesADescriptorThatIsNoMemory) {
  Fd pipe_end;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Fd reading{ends[0]}, writing{ends[1]};
  EXPECT_EQ(kind_of([&] { (void)Segment::attach(std::move(reading), SegmentId{}); }),
            ErrorKind::malformed);
}

TEST(SegmentByDescriptor, RefusesAnotherSegmentThanAnnounced) {
  Segment segment = Segment::create(kSize, SharingStrategy::file_descriptor);
  EXPECT_EQ(kind_of([&] { (void)Segment::attach(Fd{::dup(segment.fd())}, SegmentId::random()); }),
            ErrorKind::malformed);
}

// A header as another process might write it, over sealed memory.
Fd memory_with(const SegmentHeader& header, off_t size) {
  Fd memory{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(::ftruncate(memory.get(), size), 0);
  EXPECT_GE(::pwrite(memory.get(), &header, sizeof header, 0), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  return memory;
}

SegmentHeader good_header(const SegmentId& id) {
  return {.magic = kSegmentMagic,
          .layout_version = kSegmentLayoutVersion,
          .strategy = 0,
          .id = id,
          .nbytes = 100,
          .data_offset = kSegmentDataOffset,
          .creator = 0,
          .reserved = 0};
}

constexpr off_t kGoodSize = kSegmentDataOffset + 100;

TEST(SegmentHeaders, FromElsewhereAreAcceptedWhenTheyAreRight) {
  const SegmentId id = SegmentId::random();
  EXPECT_EQ(Segment::attach(memory_with(good_header(id), kGoodSize), id).nbytes(), 100u);
}

TEST(SegmentHeaders, OfAnotherVersionAreRefusedNamingBoth) {
  const SegmentId id = SegmentId::random();
  SegmentHeader header = good_header(id);
  header.layout_version = 99;
  try {
    (void)Segment::attach(memory_with(header, kGoodSize), id);
    FAIL() << "attached";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::version_mismatch);
    EXPECT_NE(error.reason().find("layout 99, this one reads 1"), std::string::npos)
        << error.what();
  }
}

TEST(SegmentHeaders, ThatPromiseMoreThanTheFileHoldsAreRefused) {
  const SegmentId id = SegmentId::random();
  for (const std::uint64_t nbytes : {std::uint64_t{101}, UINT64_MAX, std::uint64_t{0}}) {
    SegmentHeader header = good_header(id);
    header.nbytes = nbytes;
    EXPECT_EQ(kind_of([&] { (void)Segment::attach(memory_with(header, kGoodSize), id); }),
              ErrorKind::malformed);
  }
}

TEST(SegmentHeaders, InFilesTooShortForOneAreRefused) {
  const SegmentId id = SegmentId::random();
  for (const off_t size : {0, 1, 64, 4095}) {
    EXPECT_EQ(kind_of([&] { (void)Segment::attach(memory_with(good_header(id), size), id); }),
              ErrorKind::malformed)
        << size;
  }
}

TEST(SegmentByName, StandsUnderDevShmForItsUserAlone) {
  Segment segment = Segment::create(kSize, SharingStrategy::file_system);
  struct stat about {};
  ASSERT_EQ(::stat(("/dev/shm/" + segment.name()).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(segment.fd(), -1) << "a named segment keeps no descriptor";
}

TEST(SegmentByName, DisappearsWithItsLastHolder) {
  auto ours = std::make_unique<Segment>(Segment::create(kSize, SharingStrategy::file_system));
  const std::string name = ours->name();
  ours->hold_for_message();
  auto theirs = std::make_unique<Segment>(Segment::attach(ours->id(), my_token()));
  ours.reset();
  EXPECT_TRUE(shm_name_exists(name)) << "the creator's end is not the last holder's";
  EXPECT_EQ(theirs->nbytes(), kSize);
  theirs.reset();
  EXPECT_FALSE(shm_name_exists(name));
}

TEST(SegmentByName, StaysWhileAMessageHoldsIt) {
  auto segment = std::make_unique<Segment>(Segment::create(kSize, SharingStrategy::file_system));
  const std::string name = segment->name();
  const SegmentId id = segment->id();
  segment->data()[0] = std::byte{5};
  segment->hold_for_message();
  segment.reset();
  ASSERT_TRUE(shm_name_exists(name));
  {
    Segment received = Segment::attach(id, my_token());
    EXPECT_EQ(received.data()[0], std::byte{5});
  }
  EXPECT_FALSE(shm_name_exists(name));
}

TEST(SegmentByName, IsNotAttachedWithoutAHold) {
  Segment segment = Segment::create(kSize, SharingStrategy::file_system);
  EXPECT_EQ(kind_of([&] { (void)Segment::attach(segment.id(), TokenId{12345}); }),
            ErrorKind::malformed);
}

TEST(SegmentByName, ThatIsGoneIsReportedAsNotFound) {
  EXPECT_EQ(kind_of([] { (void)Segment::attach(SegmentId::random(), my_token()); }),
            ErrorKind::not_found);
}

TEST(SegmentByName, SurvivesTheLossOfItsName) {
  Segment segment = Segment::create(kSize, SharingStrategy::file_system);
  ASSERT_EQ(::unlink(("/dev/shm/" + segment.name()).c_str()), 0);
  segment.data()[kSize - 1] = std::byte{1};
  EXPECT_EQ(segment.data()[kSize - 1], std::byte{1});
  // Its destruction finds nothing to remove, which is no error.
}

TEST(SegmentByName, HasRoomForManyMessagesAndSaysWhenItIsFull) {
  Segment segment = Segment::create(1, SharingStrategy::file_system);
  for (std::size_t i = 1; i < kLedgerRows; ++i) segment.hold_for_message();
  EXPECT_EQ(kind_of([&] { segment.hold_for_message(); }), ErrorKind::limit_reached);
  for (std::size_t i = 1; i < kLedgerRows; ++i) segment.release_message_hold(my_token());
}

}  // namespace
}  // namespace shoal
