#include "shoal/runtime/base/unix_socket.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/spin.h"

namespace shoal {
namespace {

// Aligned as cmsghdr, with room for the largest set of descriptors.
struct ControlBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPacketFds * sizeof(int))> bytes;
};

void take_descriptors(msghdr& header, std::vector<Fd>& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

[[noreturn]] void throw_descriptors_lost() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  throw Error({.kind = ErrorKind::limit_reached,
               .call = "recvmsg",
               .reason = concat("descriptors that came with a message were dropped, since this "
                                "process may open only ",
                                limit.rlim_cur),
               .remedy = "Raise the limit with `ulimit -n`, or hold fewer shared tensors at once"});
}

}  // namespace

std::pair<Fd, Fd> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
    throw_errno("socketpair", "", errno == EMFILE ? "Raise the limit with `ulimit -n`" : "");
  return {Fd{ends[0]}, Fd{ends[1]}};
}

Transfer send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds,
                     Deadline deadline) {
  check(!bytes.empty() && bytes.size() <= kMaxPacketBytes && fds.size() <= kMaxPacketFds,
        ErrorKind::invalid_argument, "send_packet", bytes.size(), " bytes and ", fds.size(),
        " descriptors do not fit one packet");
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control;
  if (!fds.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Transfer::done;
    if (errno == EINTR) continue;
    // ETOOMANYREFS: too many descriptors of this user are in flight; room comes as receivers read.
    if (errno != EAGAIN && errno != ETOOMANYREFS) {
      throw_errno(
          "sendmsg", "channel",
          errno == EPIPE || errno == ECONNRESET ? "The process on the other side has ended" : "");
    }
    if (errno == ETOOMANYREFS) {
      // No event announces the room, so ask again at a modest pace.
      if (deadline.expired()) return Transfer::timed_out;
      ::poll(nullptr, 0, 1);
    } else if (!wait_ready(socket, POLLOUT, deadline)) {
      return Transfer::timed_out;
    }
  }
}

Transfer receive_packet(int socket, std::span<std::byte> buffer, std::size_t& nbytes,
                        std::vector<Fd>& fds, Deadline deadline, int spin_us) {
  const Deadline spin =
      spin_us > 0 && usable_cpus() > 1 ? earlier(deadline, in_ms(spin_us / 1e3)) : in_ms(0);
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  ControlBuffer control;
  for (;;) {
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got >= 0) {
      take_descriptors(header, fds);
      if (header.msg_flags & MSG_CTRUNC) throw_descriptors_lost();
      check(!(header.msg_flags & MSG_TRUNC), ErrorKind::malformed, "recvmsg",
            "a packet is larger than ", buffer.size(), " bytes");
      nbytes = static_cast<std::size_t>(got);
      return got == 0 ? Transfer::closed : Transfer::done;
    }
    // ECONNRESET only says that the peer went away with packets of ours unread. The kernel reports
    // it once, before what the peer had sent, which is still there to be read.
    if (errno == EINTR || errno == ECONNRESET) continue;
    if (errno != EAGAIN) throw_errno("recvmsg", "channel");
    if (!spin.expired()) continue;
    if (!wait_ready(socket, POLLIN, deadline)) return Transfer::timed_out;
  }
}

}  // namespace shoal
