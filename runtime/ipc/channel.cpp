#include "shoal/runtime/ipc/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/wire.h"

// A message is one packet, or several when it is long or brings many descriptors. Each packet
// starts with how much of the message is still to come after it.
namespace shoal {
namespace {

struct PacketHeader {
  std::uint64_t bytes_after;
  std::uint32_t fds_after;
  std::uint32_t fds_here;
};

constexpr std::size_t kChunk = kMaxPacketBytes - sizeof(PacketHeader);
// Against a peer that announces nonsense; a real message is a few KiB.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
constexpr std::uint32_t kMostFds = 1u << 20;

// Half a message would make what follows unreadable, so nothing follows: the other end reads that
// the channel is closed.
[[noreturn]] void throw_broken_off(int socket) {
  ::shutdown(socket, SHUT_WR);
  throw Error({.kind = ErrorKind::timed_out,
               .call = "Channel::send",
               .reason = "the deadline passed with half of a message sent; this end is closed now",
               .remedy = "Allow more time for large messages, or send them in parts"});
}

}  // namespace

struct Channel::State {
  explicit State(Fd end) : socket(std::move(end)), buffer(kMaxPacketBytes) {}

  Fd socket;
  std::mutex sending;    // keeps the packets of one message together
  std::mutex receiving;  // likewise, and guards what follows
  std::vector<std::byte> buffer;
  std::vector<std::byte> body;  // of a message whose first packets have come
  std::vector<Fd> fds;
  std::optional<PacketHeader> before;  // of the packet before, while a message is incomplete
  bool broken = false;
  // Relaxed: a flag to look at, it orders nothing.
  std::atomic<bool> closed{false};

  // Takes packets until a message is whole. Keeps what has come when the deadline passes.
  Transfer assemble(Deadline deadline);
};

Transfer Channel::State::assemble(Deadline deadline) {
  for (;;) {
    std::size_t nbytes = 0;
    const std::size_t fds_before = fds.size();
    const Transfer got = receive_packet(socket.get(), buffer, nbytes, fds, deadline);
    if (got != Transfer::done) return got;
    WireReader reader{std::span(buffer).first(nbytes)};
    const auto header = reader.get<PacketHeader>();
    const std::uint64_t bytes_here = reader.left();
    // Each packet announces exactly what the one before left over, so a message has an end.
    const bool follows = !before || (before->bytes_after == header.bytes_after + bytes_here &&
                                     before->fds_after == header.fds_after + header.fds_here &&
                                     bytes_here + header.fds_here > 0);
    check(follows && header.bytes_after <= kMostBytes && header.fds_after <= kMostFds &&
              fds.size() - fds_before == header.fds_here,
          ErrorKind::malformed, "receive", "a packet's header does not fit its contents");
    const auto chunk = std::span(buffer).subspan(sizeof header, reader.left());
    body.insert(body.end(), chunk.begin(), chunk.end());
    if (header.bytes_after == 0 && header.fds_after == 0) {
      before.reset();
      return Transfer::done;
    }
    before = header;
  }
}

std::pair<Channel, Channel> Channel::pair() {
  auto [left, right] = make_socket_pair();
  return {Channel(std::move(left)), Channel(std::move(right))};
}

Channel::Channel(Fd socket) : state_(std::make_unique<State>(std::move(socket))) {}
Channel::Channel(Channel&& other) noexcept = default;
Channel& Channel::operator=(Channel&& other) noexcept = default;
Channel::~Channel() = default;

bool Channel::send(const Message& message, Deadline deadline) {
  const EncodedMessage encoded = encode(message);
  std::span<const std::byte> body = encoded.body;
  std::span<const int> fds = encoded.fds;
  const std::scoped_lock hold(state_->sending);
  try {
    for (bool first = true; first || !body.empty() || !fds.empty(); first = false) {
      const auto bytes_here = body.first(std::min(body.size(), kChunk));
      const auto fds_here = fds.first(std::min(fds.size(), kMaxPacketFds));
      body = body.subspan(bytes_here.size());
      fds = fds.subspan(fds_here.size());
      WireWriter packet;
      packet.put(PacketHeader{.bytes_after = body.size(),
                              .fds_after = static_cast<std::uint32_t>(fds.size()),
                              .fds_here = static_cast<std::uint32_t>(fds_here.size())});
      std::vector<std::byte> bytes = packet.take();
      bytes.insert(bytes.end(), bytes_here.begin(), bytes_here.end());
      if (send_packet(state_->socket.get(), bytes, fds_here, deadline) == Transfer::done) continue;
      if (!first) throw_broken_off(state_->socket.get());
      abandon(encoded);
      return false;
    }
  } catch (...) {
    abandon(encoded);
    throw;
  }
  return true;
}

std::optional<Message> Channel::receive(Deadline deadline) {
  State& s = *state_;
  const std::scoped_lock hold(s.receiving);
  check(!s.broken, ErrorKind::malformed, "receive", "an earlier error broke this channel");
  std::vector<std::byte> body;
  std::vector<Fd> fds;
  try {
    const Transfer got = s.assemble(deadline);
    if (got == Transfer::timed_out) return std::nullopt;
    body = std::exchange(s.body, {});
    fds = std::exchange(s.fds, {});
    if (got == Transfer::closed) {
      // A message that breaks off is a sender that was killed while sending: it never was sent.
      s.closed.store(true, std::memory_order_relaxed);
      return std::nullopt;
    }
  } catch (...) {
    // Half a message and its descriptors must not become part of the next.
    s.broken = true;
    s.body.clear();
    s.fds.clear();
    throw;
  }
  return decode(body, std::move(fds));
}

bool Channel::peer_closed() const { return state_->closed.load(std::memory_order_relaxed); }

int Channel::fd() const { return state_ == nullptr ? -1 : state_->socket.get(); }

Fd Channel::release_fd() && { return std::move(state_->socket); }

}  // namespace shoal
