#include "shoal/runtime/shm/orphans.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

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
    Segment segment = Segment::create(100, kNamed);
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
  Segment segment = Segment::create(100, kNamed);
  reap_orphans();
  EXPECT_TRUE(shm_name_exists(segment.name()));
  EXPECT_TRUE(token_is_alive(my_token()));
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
  auto segment = std::make_unique<Segment>(Segment::create(100, kNamed));
  const std::string name = segment->name();
  const SegmentId id = segment->id();
  const TokenId sender = my_token();
  segment->hold_for_message();
  status_of_child([&] {
    Segment attached = Segment::attach(id, sender);
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(shm_name_exists(name));
  segment.reset();
  EXPECT_FALSE(shm_name_exists(name));
}

TEST(Tokens, DieWithTheirProcess) {
  const auto [ours, theirs] = make_socket_pair();
  status_of_child([&theirs = theirs] {
    const TokenId token = my_token();
    (void)send_packet(theirs.get(), std::as_bytes(std::span(&token, 1)), {}, kForever);
    ::raise(SIGKILL);
  });
  TokenId token = 0;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  ASSERT_EQ(receive_packet(ours.get(), std::as_writable_bytes(std::span(&token, 1)), nbytes, fds,
                           in_seconds(10)),
            Transfer::done);
  EXPECT_FALSE(token_is_alive(token));
  reap_orphans();
  EXPECT_FALSE(shm_name_exists(token_file_name(token)));
}

TEST(Tokens, LiveAsLongAsADescriptorOfTheirsIsInFlight) {
  const auto [ours, theirs] = make_socket_pair();
  status_of_child([&theirs = theirs] {
    const TokenId token = my_token();
    const int fd = my_token_fd();
    (void)send_packet(theirs.get(), std::as_bytes(std::span(&token, 1)), std::span(&fd, 1),
                      kForever);
    ::raise(SIGKILL);
  });
  TokenId token = 0;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  ASSERT_EQ(receive_packet(ours.get(), std::as_writable_bytes(std::span(&token, 1)), nbytes, fds,
                           in_seconds(10)),
            Transfer::done);
  EXPECT_TRUE(token_is_alive(token));
  fds.clear();
  EXPECT_FALSE(token_is_alive(token));
  reap_orphans();
}

TEST(Tokens, AreNotInheritedByAForkedChild) {
  const TokenId parents = my_token();
  const int status = status_of_child([parents] {
    if (my_token_if_any() != 0) ::_exit(1);
    if (my_token() == parents) ::_exit(2);
    // The child's end must not look like the parent's.
    if (!token_is_alive(parents)) ::_exit(3);
    retire_my_token();
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(token_is_alive(parents));
}

TEST(ForkedChildren, GiveNothingBackThatTheirParentHolds) {
  auto segment = std::make_unique<Segment>(Segment::create(100, kNamed));
  segment->data()[0] = std::byte{3};
  const int status = status_of_child([&segment] {
    if (segment->data()[0] != std::byte{3}) ::_exit(1);
    segment->data()[1] = std::byte{4};
    segment.reset();
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(shm_name_exists(segment->name()));
  EXPECT_EQ(segment->data()[1], std::byte{4});
}

}  // namespace
}  // namespace shoal
