#include "shoal/runtime/ipc/channel.h"

#include <atomic>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/packet_socket.h"

namespace shoal {

struct Channel::State {
  explicit State(Fd end) : socket(std::move(end)) {}

  Fd socket;
  // Relaxed: a flag to look at, it orders nothing.
  std::atomic<bool> closed{false};
};

std::pair<Channel, Channel> Channel::pair() {
  auto [left, right] = make_socket_pair();
  return {Channel(std::move(left)), Channel(std::move(right))};
}

Channel::Channel(Fd socket) : state_(std::make_unique<State>(std::move(socket))) {}
Channel::Channel(Channel&& other) noexcept = default;
Channel& Channel::operator=(Channel&& other) noexcept = default;
Channel::~Channel() = default;

bool Channel::send(const Message& message, Deadline deadline) {
  return send_packed(state_->socket.get(), pack(message), deadline) == Transfer::done;
}

std::optional<Message> Channel::receive(Deadline deadline) {
  Message message;
  const Transfer got = receive_message(state_->socket.get(), message, deadline);
  if (got == Transfer::done) return message;
  if (got == Transfer::closed) state_->closed.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

bool Channel::peer_closed() const { return state_->closed.load(std::memory_order_relaxed); }

int Channel::fd() const { return state_ == nullptr ? -1 : state_->socket.get(); }

Fd Channel::release_fd() && { return std::move(state_->socket); }

}  // namespace shoal
