#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/base/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shoal {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Error, SaysCallSubjectReasonAndRemedy) {
  const Error error({.kind = ErrorKind::no_space,
                     .call = "call",
                     .subject = "subject",
                     .reason = "reason",
                     .remedy = "Do this"});
  EXPECT_STREQ(error.what(), "call: subject: reason. Do this");
  EXPECT_EQ(error.kind(), ErrorKind::no_space);
}

TEST(Error, LeavesOutEmptyParts) {
  EXPECT_STREQ(Error({.call = "call", .reason = "reason"}).what(), "call: reason");
}

TEST(Error, NamesErrnoAndChoosesItsKind) {
  try {
    throw_errno(EMFILE, "open", "/some/file");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::limit_reached);
    EXPECT_EQ(error.errno_value(), EMFILE);
    EXPECT_STREQ(error.what(), "open: /some/file: Too many open files (EMFILE)");
  }
}

TEST(Error, CheckBuildsItsReasonFromParts) {
  EXPECT_NO_THROW(check(true, ErrorKind::invalid_argument, "f", "never"));
  try {
    check(false, ErrorKind::invalid_argument, "f", "got ", 3, " of ", 4.5);
    FAIL() << "check let it pass";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "f: got 3 of 4.5");
  }
}

TEST(Fd, ClosesWhatItOwnsOnce) {
  int number = -1;
  {
    Fd first{::memfd_create("test", MFD_CLOEXEC)};
    number = first.get();
    Fd second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): a moved-from Fd owns nothing
    EXPECT_EQ(second.get(), number);
    EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST(Fd, DuplicatesAreCloseOnExec) {
  const Fd first{::memfd_create("test", MFD_CLOEXEC)};
  const Fd second = first.duplicate();
  EXPECT_NE(first.get(), second.get());
  EXPECT_EQ(::fcntl(second.get(), F_GETFD), FD_CLOEXEC);
}

TEST(Deadline, NeverPassesByDefault) {
  EXPECT_TRUE(kForever.is_never());
  EXPECT_FALSE(kForever.expired());
  EXPECT_EQ(kForever.poll_timeout(), -1);
  EXPECT_TRUE(in_seconds(INFINITY).is_never());
  EXPECT_TRUE(in_seconds(NAN).is_never());
}

TEST(Deadline, HasPassedWhenItLiesBehind) {
  EXPECT_TRUE(in_seconds(-1).expired());
  EXPECT_EQ(in_seconds(-1).poll_timeout(), 0);
  EXPECT_FALSE(in_seconds(100).expired());
  EXPECT_TRUE(earlier(in_seconds(-1), kForever).expired());
}

TEST(UnixSocket, CarriesBytesAndDescriptors) {
  const auto [left, right] = make_socket_pair();
  const Fd file{::memfd_create("test", MFD_CLOEXEC)};
  ASSERT_EQ(::write(file.get(), "x", 1), 1);
  const std::array fds{file.get()};
  ASSERT_EQ(send_packet(left.get(), bytes_of("hello"), fds, in_seconds(5)), Transfer::done);

  std::array<std::byte, 64> buffer;
  std::size_t nbytes = 0;
  std::vector<Fd> received;
  ASSERT_EQ(receive_packet(right.get(), buffer, nbytes, received, in_seconds(5)), Transfer::done);
  EXPECT_EQ(std::memcmp(buffer.data(), "hello", nbytes), 0);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(::fcntl(received[0].get(), F_GETFD), FD_CLOEXEC);
  char got = 0;
  EXPECT_EQ(::pread(received[0].get(), &got, 1, 0), 1);
  EXPECT_EQ(got, 'x');
}

TEST(UnixSocket, ReadsWhatACloserHadSentThenTheEnd) {
  auto [left, right] = make_socket_pair();
  ASSERT_EQ(send_packet(left.get(), bytes_of("last"), {}, in_seconds(5)), Transfer::done);
  // Unread by the closer: the kernel reports a reset first, which must not hide the packet.
  ASSERT_EQ(send_packet(right.get(), bytes_of("unread"), {}, in_seconds(5)), Transfer::done);
  left.reset();
  std::array<std::byte, 64> buffer;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  EXPECT_EQ(receive_packet(right.get(), buffer, nbytes, fds, in_seconds(5)), Transfer::done);
  EXPECT_EQ(nbytes, 4u);
  EXPECT_EQ(receive_packet(right.get(), buffer, nbytes, fds, in_seconds(5)), Transfer::closed);
}

TEST(UnixSocket, GivesUpAtTheDeadline) {
  const auto [left, right] = make_socket_pair();
  std::array<std::byte, 64> buffer;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  EXPECT_EQ(receive_packet(right.get(), buffer, nbytes, fds, in_ms(1)), Transfer::timed_out);
  std::vector<std::byte> packet(kMaxPacketBytes);
  Transfer sent = Transfer::done;
  for (int i = 0; i < 1000 && sent == Transfer::done; ++i)
    sent = send_packet(left.get(), packet, {}, in_ms(1));
  EXPECT_EQ(sent, Transfer::timed_out);
}

TEST(UnixSocket, TellsTheSenderThatNobodyIsLeft) {
  auto [left, right] = make_socket_pair();
  right.reset();
  try {
    (void)send_packet(left.get(), bytes_of("x"), {}, in_seconds(5));
    FAIL() << "sent to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::peer_gone);
  }
}

TEST(UnixSocket, RefusesAPacketLargerThanTheBuffer) {
  const auto [left, right] = make_socket_pair();
  ASSERT_EQ(send_packet(left.get(), bytes_of("0123456789"), {}, in_seconds(5)), Transfer::done);
  std::array<std::byte, 4> buffer;
  std::size_t nbytes = 0;
  std::vector<Fd> fds;
  EXPECT_THROW((void)receive_packet(right.get(), buffer, nbytes, fds, in_seconds(5)), Error);
}

// The limit is this process' own, so it is put back before anything else is opened.
TEST(UnixSocket, SaysWhichLimitLostDescriptors) {
  const auto [left, right] = make_socket_pair();
  const Fd file{::memfd_create("test", MFD_CLOEXEC)};
  const std::array fds{file.get(), file.get(), file.get()};
  ASSERT_EQ(send_packet(left.get(), bytes_of("x"), fds, in_seconds(5)), Transfer::done);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{.rlim_cur = static_cast<rlim_t>(file.get()) + 2, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  std::array<std::byte, 64> buffer;
  std::size_t nbytes = 0;
  std::vector<Fd> received;
  std::optional<ErrorKind> kind;
  try {
    (void)receive_packet(right.get(), buffer, nbytes, received, in_seconds(5));
  } catch (const Error& error) {
    kind = error.kind();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(kind, ErrorKind::limit_reached);
}

}  // namespace
}  // namespace shoal
