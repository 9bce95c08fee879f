#pragma once

#include <functional>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/message.h"

// Messages over a socket of make_socket_pair(); what Channel and TensorQueue have in common. Each
// message is one packet, so any number of threads and processes may use one end.
namespace shoal {

// done or timed_out. Throws Error(peer_gone) when no receiver is left. If it was not sent, what it
// holds is given back.
[[nodiscard]] Transfer send_packed(int socket, const Packet& packet, Deadline deadline);

// Spins briefly before it sleeps, if that has paid lately. Throws Error(malformed) for what no
// sender of Shoal's sends. `taken` is called once the message is out of the socket, whatever it is.
[[nodiscard]] Transfer receive_message(int socket, Message& message, Deadline deadline,
                                       const std::function<void()>& taken = {});

}  // namespace shoal
