#include "shoal/runtime/shm/manager_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/shm/manager_address.h"

namespace shoal::manager {

Connection::Connection(const std::string& socket_path, Deadline deadline)
    : socket_(connect_to(socket_path, deadline)), path_(socket_path) {
  if (!socket_)
    throw Error({.kind = ErrorKind::not_found,
                 .call = "connect",
                 .subject = socket_path,
                 .reason = "no shm-manager listens there",
                 .remedy = "Start one: shm-manager serve"});
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw_errno("getsockopt(SO_PEERCRED)", socket_path);
  check(peer.uid == ::geteuid() || peer.uid == 0, ErrorKind::unsupported, "connect", socket_path,
        " is served by user ", peer.uid, ", who is neither this one nor root");
}

void Connection::greet(Deadline deadline) {
  greeted_ = true;
  const Frame welcome =
      exchange({.verb = Verb::hello, .pid = static_cast<std::uint32_t>(::getpid())}, deadline);
  check(welcome.verb == Verb::welcome, ErrorKind::malformed, "shm-manager", path_,
        " does not say welcome");
  manager_pid_ = welcome.pid;
}

Frame Connection::ask(const Frame& request, Deadline deadline) {
  if (!greeted_) greet(deadline);
  return exchange(request, deadline);
}

Frame Connection::exchange(const Frame& request, Deadline deadline) {
  const auto in_time = [&](bool done) {
    check(done, ErrorKind::timed_out, "shm-manager", path_,
          " does not answer. Look at its log; shm-manager doctor says more");
  };
  in_time(send_packet(socket_.get(), encode(request), {}, deadline) == Transfer::done);
  // It takes a while: to ask before one waits would be in vain.
  in_time(wait_ready(socket_.get(), POLLIN, deadline));
  std::array<std::byte, kMaxFrame> buffer;
  // Descriptors that come along are dropped by the kernel, since there is no room for them here.
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) throw_errno("recv", path_);
  check(got > 0, ErrorKind::peer_gone, "shm-manager", path_, " has closed the connection");
  check(static_cast<std::size_t>(got) <= buffer.size(), ErrorKind::malformed, "shm-manager", path_,
        " answers with ", got, " bytes");
  Frame answer = decode(std::span(buffer).first(static_cast<std::size_t>(got)));
  check(answer.verb != Verb::refused, ErrorKind::limit_reached, "shm-manager", path_,
        " refuses: ", answer.reason);
  return answer;
}

bool Connection::is_open() const noexcept {
  // There is no answer to come where there was no question: nothing but the end can be read.
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EINTR);
}

}  // namespace shoal::manager
