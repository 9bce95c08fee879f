#include "shoal/tools/shm_manager/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <thread>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"

namespace shoal::tools {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;

}  // namespace

Session::Session(boost::asio::io_context& loop, Fd socket, Id id, std::size_t rate, Answer answer,
                 Ended ended)
    : answer_(std::move(answer)),
      ended_(std::move(ended)),
      socket_(loop),
      pause_(loop),
      id_(id),
      connected_(Clock::now()),
      rate_(static_cast<double>(rate)),
      allowance_(rate_),
      filled_(connected_) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw_errno("getsockopt(SO_PEERCRED)");
  uid_ = peer.uid;
  pid_ = static_cast<std::uint32_t>(std::max(0, peer.pid));
  socket_.assign(socket.get());
  (void)socket.release();
}

std::uint64_t Session::connected_s() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - connected_).count());
}

void Session::wait_for_request() {
  socket_.async_wait(Descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& failed) {
                       if (!failed) self->serve_a_turn();
                     });
}

void Session::turn_away(std::string why) {
  turned_away_ = std::move(why);
  pause_.expires_after(std::chrono::seconds(1));
  pause_.async_wait([self = shared_from_this()](const boost::system::error_code& failed) {
    if (!failed) self->close();
  });
  wait_for_request();
}

void Session::serve_a_turn() {
  if (closed_) return;
  if (!unsent_.empty() && !send(std::exchange(unsent_, {}))) return;
  if (!has_allowance()) {
    pause_.expires_after(std::chrono::milliseconds(10));
    pause_.async_wait([self = shared_from_this()](const boost::system::error_code& failed) {
      if (!failed) self->serve_a_turn();
    });
    return;
  }
  try {
    if (!take_one()) return close();
  } catch (const std::exception& error) {
    refuse(error.what());
    return close();
  }
  // If there is more already, after the others have had their turn.
  if (unsent_.empty() && !closed_) wait_for_request();
}

bool Session::take_one() {
  std::array<std::byte, manager::kMaxFrame> buffer;
  std::size_t nbytes = 0;
  std::vector<Fd> unwanted;
  const Transfer got = receive_packet(socket_.native_handle(), buffer, nbytes, unwanted, in_ms(0));
  if (!unwanted.empty()) {
    // To close what others sent may take as long as they like: a socket that lingers, a file of a
    // file system in user space. Where the kernel lets us, none are let through (see Server).
    std::thread([closed = std::move(unwanted)] {}).detach();
    throw Error({.kind = ErrorKind::malformed,
                 .call = "shm-manager message",
                 .reason = "it came with descriptors"});
  }
  if (got == Transfer::timed_out) return true;
  if (got == Transfer::closed) return false;
  ++messages_;
  if (!turned_away_.empty()) {
    refuse(turned_away_);
    return false;
  }
  const manager::Frame request = manager::decode(std::span(buffer).first(nbytes));
  allowance_ -= static_cast<double>(std::max<std::size_t>(1, request.names.size()));
  (void)send(manager::encode(answer_(*this, request)));
  return true;
}

bool Session::send(const std::vector<std::byte>& bytes) {
  const ssize_t sent =
      ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return true;
  if (errno == EAGAIN) {
    unsent_ = bytes;
    socket_.async_wait(Descriptor::wait_write,
                       [self = shared_from_this()](const boost::system::error_code& failed) {
                         if (!failed) self->serve_a_turn();
                       });
  } else {
    close();
  }
  return false;
}

bool Session::has_allowance() {
  const auto now = Clock::now();
  const std::chrono::duration<double> passed = now - filled_;
  filled_ = now;
  allowance_ = std::min(rate_, allowance_ + passed.count() * rate_);
  return allowance_ >= 1;
}

void Session::finish() noexcept {
  try {
    if (!closed_) (void)take_one();
  } catch (const std::exception& error) {
    refuse(error.what());
  } catch (...) {
    // Nor to say why.
  }
  close();
}

void Session::refuse(const std::string& why) noexcept {
  try {
    const auto bytes = manager::encode({.verb = manager::Verb::refused, .reason = why});
    ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } catch (const std::exception&) {
    // It hears nothing then, but the end.
  }
}

void Session::close() noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    boost::system::error_code ignored;
    pause_.cancel();
    socket_.close(ignored);
    ended_(*this);
  } catch (...) {
    // None of these has a reason to throw.
  }
}

}  // namespace shoal::tools
