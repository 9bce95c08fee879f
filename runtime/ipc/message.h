#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// What a Channel carries: a word that says what it is, a small payload, tensors, descriptors.
// Tensors go by handle; views of one storage arrive as views of one storage.
struct Message {
  std::string tag{};
  std::vector<std::byte> bytes{};
  std::vector<Tensor> tensors{};
  std::vector<Fd> fds{};
};

// A message as packets carry it.
struct EncodedMessage {
  std::vector<std::byte> body;
  std::vector<int> fds;  // borrowed from the message's storages and fds, and from this process
  // Named segments that the message holds while it is on its way.
  std::vector<std::shared_ptr<Storage>> held;
};

// Moves the storages of `message.tensors` into shared memory, by this process' strategy, where they
// are private still, and describes them. The holds are the caller's to give back with
// abandon() if the message does not leave.
[[nodiscard]] EncodedMessage encode(const Message& message);
void abandon(const EncodedMessage& encoded) noexcept;

// Throws Error(malformed), Error(version_mismatch), or what attaching throws.
[[nodiscard]] Message decode(std::span<const std::byte> body, std::vector<Fd> fds);

}  // namespace shoal
