#include "shoal/runtime/shm/manager_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/shm/manager_address.h"
#include "shoal/runtime/shm/manager_start.h"

namespace shoal::manager {
namespace {

// A manager answers within a millisecond, or something is wrong with it.
constexpr double kPatienceMs = 2000;
// Where it would be no great loss not to tell: how long it may take, and for how long it is not
// tried again.
constexpr double kShortPatienceMs = 200;
constexpr double kQuietS = 5;

// A manager that ends as soon as it has started will do so again.
constexpr int kMostStarts = 3;

// This process as a client. Guarded by the pool's lock, and across fork by its handlers.
struct Membership {
  std::optional<Connection> connection;
  std::optional<Connection> childs;  // between prepare_fork and after_fork_…
  std::set<std::string> held;
  bool told = false;                // whether the connection's manager knows of all in `held`
  Deadline quiet_until = in_ms(0);  // no more of what is no great loss, after it did not work
};

Membership& membership() {
  static auto* instance =
      new Membership;  // segments are still given back while statics are destroyed
  return *instance;
}

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const Membership& made_at_load = membership();

Connection connect_or_start(Deadline deadline) {
  const std::string path = socket_path();
  for (int starts = 0;; ++starts) {
    try {
      return Connection(path, deadline);
    } catch (const Error& error) {
      // Nobody is there, or a manager that was just about to end.
      const bool gone =
          error.kind() == ErrorKind::not_found || error.kind() == ErrorKind::peer_gone;
      if (!gone || deadline.expired() || starts == kMostStarts) throw;
    }
    start_private(path, deadline);
  }
}

void tell_all(Membership& self, Deadline deadline) {
  Frame frame{.verb = Verb::hold};
  const auto send = [&] {
    if (!frame.names.empty()) (void)self.connection->ask(frame, deadline);
    frame.names.clear();
  };
  for (const std::string& name : self.held) {
    frame.names.push_back(name);
    if (frame.names.size() == kMostNames) send();
  }
  send();
  self.told = true;
}

// `connect` makes a connection.
template <class Connect>
void tell(Membership& self, const std::string& name, Deadline deadline, Connect&& connect) {
  for (;;) {
    try {
      if (!self.connection) {
        self.told = false;
        self.connection = connect();
      }
      if (!self.told) return tell_all(self, deadline);
      (void)self.connection->ask({.verb = Verb::hold, .names = {name}}, deadline);
      return;
    } catch (const Error& error) {
      // A refusal is an answer; after any other error what comes belongs to no question any more.
      if (error.kind() == ErrorKind::limit_reached) throw;
      self.connection.reset();
      if (error.kind() != ErrorKind::peer_gone || deadline.expired()) throw;
    }
  }
}

}  // namespace

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

void hold(const std::string& name) {
  if (is_off()) return;
  Membership& self = membership();
  self.held.insert(name);
  const Deadline deadline = in_ms(kPatienceMs);
  try {
    tell(self, name, deadline, [&] { return connect_or_start(deadline); });
  } catch (...) {
    self.held.erase(name);
    throw;
  }
}

void hold_if_reachable(const std::string& name) noexcept {
  try {
    Membership& self = membership();
    if (is_off() || !self.quiet_until.expired()) return;
    self.held.insert(name);
    const Deadline deadline = in_ms(kShortPatienceMs);
    tell(self, name, deadline, [&] { return Connection(socket_path(), deadline); });
  } catch (const std::exception&) {
    Membership& self = membership();
    self.held.erase(name);
    self.quiet_until = in_seconds(kQuietS);
  }
}

void release(const std::string& name) noexcept {
  Membership& self = membership();
  if (self.held.erase(name) == 0 || !self.connection) return;
  try {
    (void)self.connection->ask({.verb = Verb::release, .names = {name}}, in_ms(kShortPatienceMs));
  } catch (const std::exception&) {
    self.connection.reset();
  }
}

void prepare_fork() noexcept {
  Membership& self = membership();
  if (!self.connection) return;
  try {
    self.childs.emplace(socket_path(), in_ms(kShortPatienceMs));
  } catch (const std::exception&) {
    // The manager finds out about the child in another way, if later.
  }
}

void after_fork_in_parent() noexcept { membership().childs.reset(); }

void after_fork_in_child() noexcept {
  Membership& self = membership();
  self.connection = std::move(self.childs);
  self.childs.reset();
  self.told = false;
}

}  // namespace shoal::manager
