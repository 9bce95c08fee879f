#pragma once

#include <memory>
#include <optional>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

struct Message;

// A queue of tensors between processes and threads, any number of producers and consumers.
//
// The first put of a tensor moves its bytes into shared memory; every put sends only a handle. Each
// item goes to one consumer; items of one producer arrive in order. The kernel keeps what was put:
// its producer may exit, or be killed, right afterwards. No lock is held that could be died with.
//
// It has two ends, each of which any number of processes may have: send the queue, or one of its
// ends, in Message::queues. Consumers learn that no producer is left once every put end is closed,
// and producers likewise; so a process should keep only the end that it uses. A copy is the same
// queue. Safe from many threads.
class TensorQueue {
 public:
  static constexpr int kDefaultMaxsize = 128;

  // Holds up to `maxsize` items, at least 1; fewer if the kernel's socket buffer, which takes some
  // hundreds of small items, is full before. While a process that was
  // killed just then is found out, it may hold fewer, or for a moment one more.
  explicit TensorQueue(int maxsize = kDefaultMaxsize);

  // Blocks while full. False at the deadline, when nothing was put. Throws Error(peer_gone) when no
  // consumer is left, or the queue was closed.
  bool put(const Tensor& tensor, Deadline deadline = kForever);
  // Several tensors, a tag and a small payload as one item.
  bool put(const Message& message, Deadline deadline = kForever);

  // The next item. Empty at the deadline, or when nothing can come any more: then is_closed() is
  // true. Throws as Channel::receive does.
  [[nodiscard]] std::optional<Message> get_message(Deadline deadline = kForever);
  // For items put as one tensor: Error(malformed) for an item that is none, which is lost.
  [[nodiscard]] std::optional<Tensor> get(Deadline deadline = kForever);

  // No more puts, by anybody; what was put can still be got.
  void close();
  // Whether a get has found that the queue is empty and no put end is left open.
  [[nodiscard]] bool is_closed() const;

  [[nodiscard]] int maxsize() const;
  // How many items wait; others may change it at any time.
  [[nodiscard]] int size() const;

  // The queue with one end only. Calls that need the other throw Error(invalid_argument).
  [[nodiscard]] TensorQueue put_end() const;
  [[nodiscard]] TensorQueue get_end() const;
  [[nodiscard]] bool can_put() const;
  [[nodiscard]] bool can_get() const;

  // For poll(2): readable when an item waits or no producer is left. Owned here; -1 without get
  // end.
  [[nodiscard]] int fd() const;

  // What a message carries of it: its ends, -1 for one that it has not, and the shared words.
  struct Parts {
    int put_fd = -1, get_fd = -1;
    const Tensor& words;
  };
  [[nodiscard]] Parts parts() const;
  // From what a message brought. Throws Error(malformed).
  [[nodiscard]] static TensorQueue from_parts(Fd put_end, Fd get_end, const Tensor& words);

 private:
  struct State;
  explicit TensorQueue(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace shoal
