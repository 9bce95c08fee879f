#include "shoal/runtime/ipc/packet_socket.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

// Whether to look again and again for a packet before sleeping, which saves the time that it takes
// to be woken, but is lost time if none comes. Each thread goes by what it saw last.
class Spin {
 public:
  [[nodiscard]] int budget_us() {
    if (skip_ > 0) {
      --skip_;
      return 0;
    }
    return kMostUs;
  }
  void learn(int budget_us, Clock::duration waited) {
    if (waited < std::chrono::microseconds(kMostUs)) {
      // Had within the time, or it would have been, so the next time it is worth while.
      misses_ = skip_ = 0;
    } else if (budget_us > 0) {
      skip_ = 1 << std::min(++misses_, 6);
    }
  }

 private:
  // A few times what it takes the kernel to put a process to sleep and wake it again.
  static constexpr int kMostUs = 200;
  int misses_ = 0;
  int skip_ = 0;  // how many waits to come will not spin
};

}  // namespace

Transfer send_packed(int socket, const Packet& packet, Deadline deadline) {
  try {
    const Transfer sent = send_packet(socket, packet.bytes, packet.fds, deadline);
    if (sent != Transfer::done) abandon(packet);
    return sent;
  } catch (...) {
    abandon(packet);
    throw;
  }
}

Transfer receive_message(int socket, Message& message, Deadline deadline,
                         const std::function<void()>& taken) {
  // One a thread, since a packet can be large and most are small.
  thread_local const auto buffer = std::make_unique<std::byte[]>(kMaxPacketBytes);
  thread_local Spin spin;
  const std::span bytes(buffer.get(), kMaxPacketBytes);
  std::vector<Fd> fds;
  std::size_t nbytes = 0;
  const int budget_us = spin.budget_us();
  const auto begin = Clock::now();
  const Transfer got = receive_packet(socket, bytes, nbytes, fds, deadline, budget_us);
  spin.learn(budget_us, Clock::now() - begin);
  if (got == Transfer::done) {
    if (taken) taken();
    message = unpack(bytes.first(nbytes), std::move(fds));
  } else {
    // Nothing comes: a moment to let go of what others have left behind.
    SegmentPool::instance().look_after_others(got == Transfer::closed);
  }
  return got;
}

}  // namespace shoal
