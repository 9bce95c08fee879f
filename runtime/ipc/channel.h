#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/ipc/message.h"

namespace shoal {

// One end of a connection between two processes, or two threads, that carries Messages both ways.
//
// Messages arrive whole and in order, of any size and with any number of tensors. What was sent
// arrives even if the sender has ended since, also by SIGKILL: the kernel keeps it, tensors too.
// Move-only. Safe from many threads; each gets whole messages.
class Channel {
 public:
  // Two connected ends.
  [[nodiscard]] static std::pair<Channel, Channel> pair();

  // An end that came from another process, as release_fd gave it there.
  explicit Channel(Fd socket);
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  // Sends by handle: a tensor that is private still moves into shared memory first, in place.
  // Blocks while the other end's buffer is full. False at the deadline, when nothing was sent.
  // Throws Error(peer_gone) when the other end is closed.
  bool send(const Message& message, Deadline deadline = kForever);

  // The next message. Empty at the deadline, or when the other end is closed and nothing is left;
  // peer_closed() tells which. Throws Error(malformed) for what no Channel sends, and
  // Error(limit_reached) when this process may not open the descriptors that came along; that
  // message is lost then, the next may be received.
  [[nodiscard]] std::optional<Message> receive(Deadline deadline = kForever);

  // Whether receive has found the other end closed.
  [[nodiscard]] bool peer_closed() const;

  // For poll(2): readable when a message waits or the other end is closed. Owned here; -1 once
  // the end was moved away.
  [[nodiscard]] int fd() const;

  // Gives up the end, to be sent to another process in Message::fds.
  [[nodiscard]] Fd release_fd() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal
