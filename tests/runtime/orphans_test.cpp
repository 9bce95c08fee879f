#include "shoal/runtime/shm/orphans.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/shm/segment.h"
#include "support/shm_names.h"

// Named memory, and processes that end without giving it back.
namespace shoal {
namespace {

using test::shm_name_exists;

constexpr auto kNamed = SharingStrategy::file_system;

// Runs `child` in a fork and says how it ended.
int status_of_child(const std::function<void()>& child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    child();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

// A child that makes a named segment, tells its id, and is killed.
SegmentId orphan_of_killed_child() {
  const auto [ours, theirs] = make_socket_pair();
  const int status = status_of_child([&theirs = theirs] {
    const Segment segment(100, 1, kNamed);
    const SegmentId id = segment.id();
    (void)send_packet(theirs.get(), std::as_bytes(std::span(&id, 1)), {}, kForever);
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  SegmentId id;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  EXPECT_EQ(receive_packet(ours.get(), std::as_writable_bytes(std::span(&id, 1)), nbytes, fds,
                           in_seconds(10)),
            Transfer::done);
  return id;
}

std::string name_of(const SegmentId& id) { return "shoal-segment-" + id.to_string(); }

TEST(Orphans, OfAKilledProcessAreReaped) {
  const std::string name = name_of(orphan_of_killed_child());
  // Another test's process may reap it first; either way it has to go.
  reap_orphans();
  EXPECT_FALSE(shm_name_exists(name));
}

TEST(Orphans, AreNotMadeByReapingWhatLives) {
  const Segment segment(100, 1, kNamed);
  reap_orphans();
  EXPECT_TRUE(shm_name_exists(segment.name()));
}

TEST(Orphans, AreNotMadeOfWhatAMessageOnItsWayHolds) {
  const auto [ours, theirs] = make_socket_pair();
  const int status = status_of_child([&theirs = theirs] {
    Segment segment(100, 1, kNamed);
    segment.data()[0] = std::byte{8};
    const SegmentId id = segment.id();
    const std::uint32_t block = 0;
    const int fd = segment.depart(std::span(&block, 1))->memory.get();
    (void)send_packet(theirs.get(), std::as_bytes(std::span(&id, 1)), std::span(&fd, 1), kForever);
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  SegmentId id;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  reap_orphans();
  ASSERT_EQ(receive_packet(ours.get(), std::as_writable_bytes(std::span(&id, 1)), nbytes, fds,
                           in_seconds(10)),
            Transfer::done);
  {
    const Segment received(fds.at(0), id);
    fds.clear();
    reap_orphans();
    EXPECT_TRUE(shm_name_exists(received.name()));
    EXPECT_EQ(received.data()[0], std::byte{8});
  }
  EXPECT_FALSE(shm_name_exists(name_of(id)));
}

TEST(Orphans, KeepTheirHandsOffFilesThatAreNoSegments) {
  const std::string path = "/dev/shm/shoal-segment-" + SegmentId::random().to_string();
  const Fd file{::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)};
  ASSERT_TRUE(file);
  ASSERT_EQ(::write(file.get(), "mine", 4), 4);
  reap_orphans();
  EXPECT_EQ(::unlink(path.c_str()), 0) << "it should still have been there";
}

TEST(Orphans, OfADeadHolderGoWhenTheLivingHolderLetsGo) {
  auto segment = std::make_unique<Segment>(100, 1, kNamed);
  const std::string name = segment->name();
  const SegmentId id = segment->id();
  const std::uint32_t block = 0;
  const auto flight = segment->depart(std::span(&block, 1));
  segment->close_flight();
  status_of_child([&] {
    const Segment attached(flight->memory, id);
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(shm_name_exists(name));
  flight->memory.reset();
  segment.reset();
  EXPECT_FALSE(shm_name_exists(name));
}

}  // namespace
}  // namespace shoal
