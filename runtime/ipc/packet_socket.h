#pragma once

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/message.h"

// Messages over a socket of make_socket_pair(); what Channel and TensorQueue have in common. Each
// message is one packet, so any number of threads and processes may use one end.
namespace shoal {

// done or timed_out. Throws Error(peer_gone) when no receiver is left.
[[nodiscard]] Transfer send_message(int socket, const Message& message, Deadline deadline);

// Spins briefly before it sleeps. Throws Error(malformed) for what no sender of Shoal's sends.
[[nodiscard]] Transfer receive_message(int socket, Message& message, Deadline deadline);

}  // namespace shoal
