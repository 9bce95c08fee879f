#include "shoal/runtime/ipc/packet_socket.h"

#include <memory>

namespace shoal {
namespace {

// About what it takes the kernel to put a process to sleep and wake it again, a few times over.
constexpr int kSpinUs = 50;

}  // namespace

Transfer send_message(int socket, const Message& message, Deadline deadline) {
  const Packet packet = pack(message);
  try {
    const Transfer sent = send_packet(socket, packet.bytes, packet.fds, deadline);
    if (sent != Transfer::done) abandon(packet);
    return sent;
  } catch (...) {
    abandon(packet);
    throw;
  }
}

Transfer receive_message(int socket, Message& message, Deadline deadline) {
  // One a thread, since a packet can be large and most are small.
  thread_local const auto buffer = std::make_unique<std::byte[]>(kMaxPacketBytes);
  const std::span bytes(buffer.get(), kMaxPacketBytes);
  std::vector<Fd> fds;
  std::size_t nbytes = 0;
  const Transfer got = receive_packet(socket, bytes, nbytes, fds, deadline, kSpinUs);
  if (got == Transfer::done) {
    message = unpack(bytes.first(nbytes), std::move(fds));
  } else {
    // Nothing comes: a moment to let go of what others have left behind.
    SegmentPool::instance().drop_abandoned();
  }
  return got;
}

}  // namespace shoal
