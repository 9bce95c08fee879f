#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/ipc/tensor_queue.h"
#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// What a Channel carries: a word that says what it is, a small payload, tensors, descriptors, and
// queues. Tensors go by handle; views of one storage arrive as views of one storage.
struct Message {
  std::string tag{};
  std::vector<std::byte> bytes{};
  std::vector<Tensor> tensors{};
  std::vector<Fd> fds{};
  std::vector<TensorQueue> queues{};
};

// A message as one packet, whatever its size: what does not fit goes by shared memory, and more
// descriptors than a packet takes go in a socket of their own, sent along. So a packet is a whole
// message, and any number of processes may send to one socket or receive from it.
struct Packet {
  std::vector<std::byte> bytes;
  std::vector<int> fds;  // borrowed from what follows, and from the message

  std::vector<std::shared_ptr<Storage>> storages;
  std::vector<TensorQueue> queues;
  std::vector<Departure> departures;  // what the message holds while it is on its way
  Fd bundle;
};

// Moves the storages of `message.tensors` into shared memory, by this process' strategy, where they
// are private still, and describes them. The holds are the caller's to give back with
// abandon() if the packet does not leave. Throws Error.
[[nodiscard]] Packet pack(const Message& message);
void abandon(const Packet& packet) noexcept;

// What a packet brought. Throws Error(malformed), Error(version_mismatch), or what attaching
// throws; then what the packet held is let go, or found out to be as for a lost message (flight.h).
[[nodiscard]] Message unpack(std::span<const std::byte> bytes, std::vector<Fd> fds);

}  // namespace shoal
