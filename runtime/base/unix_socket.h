#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"

// AF_UNIX SOCK_SEQPACKET: whole packets in order, descriptors attached, end of file when the last
// copy of the other end is closed. A descriptor in flight belongs to the kernel and survives its
// sender. Safe from many threads and processes: each packet goes whole to one receiver.
namespace shoal {

// Linux takes at most 253 descriptors a packet (SCM_MAX_FD); 64 KiB stays well below the default
// socket buffer, so that a packet is never refused for its size.
inline constexpr std::size_t kMaxPacketFds = 253;
inline constexpr std::size_t kMaxPacketBytes = std::size_t{64} * 1024;

// Two connected ends, both close-on-exec.
[[nodiscard]] std::pair<Fd, Fd> make_socket_pair();

enum class Transfer {
  done,
  timed_out,
  closed,  // receive only: no end of the other side is open, and nothing is left to read
};

// Sends `bytes` (1 to kMaxPacketBytes) and duplicates of `fds` (kMaxPacketFds at most).
// Blocks while the other side's buffer is full. Throws Error(peer_gone) when no receiver is left.
[[nodiscard]] Transfer send_packet(int socket, std::span<const std::byte> bytes,
                                   std::span<const int> fds, Deadline deadline);

// Receives one packet into `buffer`. Before it sleeps it asks again and again for `spin_us`
// microseconds, unless there is only one processor to run on: a packet that comes soon is then had
// sooner than the kernel could wake us.
//
// `nbytes` becomes its size, its descriptors are appended to `fds`. Throws Error(malformed) for a
// packet larger than the buffer and Error(limit_reached) when this process may not open the
// descriptors that came with it.
[[nodiscard]] Transfer receive_packet(int socket, std::span<std::byte> buffer, std::size_t& nbytes,
                                      std::vector<Fd>& fds, Deadline deadline, int spin_us = 0);

}  // namespace shoal
