#include "shoal/runtime/ipc/tensor_queue.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/futex.h"
#include "shoal/runtime/base/spin.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/message.h"
#include "shoal/runtime/ipc/packet_socket.h"

namespace shoal {
namespace {

// What all who have the queue share. The items are in the socket; these words only count them, to
// bound them. So a process that dies between a word and the socket can make the count wrong, but
// never the queue; whoever finds it full though the socket is empty sets it right.
struct Words {
  std::uint32_t maxsize;  // never changes
  FutexWord closed;
  FutexWord put;      // items ever put; puts that wait for the socket included
  FutexWord got;      // items ever got; who waits for room sleeps here
  FutexWord waiting;  // how many do; too many after one was killed, which costs only a wake
};

// How long a wait for room goes on before it looks whether anybody is left who could make some.
constexpr double kLookMs = 20;

// About what one small item takes of a socket's buffer.
constexpr int kItemBytes = 1024;

}  // namespace

struct TensorQueue::State {
  std::shared_ptr<const Fd> put_end, get_end;
  Tensor tensor;  // the words
  // Relaxed: a flag to look at, it orders nothing.
  std::atomic<bool> drained{false};

  [[nodiscard]] Words& words() const { return *static_cast<Words*>(tensor.data_ptr()); }
  [[nodiscard]] int put_fd() const {
    check(put_end != nullptr, ErrorKind::invalid_argument, "TensorQueue::put",
          "this is the queue's get end");
    return put_end->get();
  }
  [[nodiscard]] int get_fd() const {
    check(get_end != nullptr, ErrorKind::invalid_argument, "TensorQueue::get",
          "this is the queue's put end");
    return get_end->get();
  }
  [[nodiscard]] bool take_place(Deadline deadline);
  void give_place_back();
  void count_got();
  [[nodiscard]] bool is_miscounted(std::uint32_t put, std::uint32_t got) const;
  void check_consumers() const;
  [[nodiscard]] bool socket_is_empty() const;
  [[nodiscard]] bool maxsize_is_sound() const {
    return words().maxsize >= 1 && words().maxsize <= INT32_MAX;
  }
};

void TensorQueue::State::check_consumers() const {
  check(words().closed.load(std::memory_order_acquire) == 0, ErrorKind::peer_gone,
        "TensorQueue::put", "the queue was closed");
  pollfd ready{.fd = put_end->get(), .events = 0, .revents = 0};
  check(::poll(&ready, 1, 0) <= 0 || (ready.revents & (POLLHUP | POLLERR)) == 0,
        ErrorKind::peer_gone, "TensorQueue::put", "no consumer is left");
}

bool TensorQueue::State::socket_is_empty() const {
  int unread = 0;
  return ::ioctl(put_end->get(), SIOCOUTQ, &unread) == 0 && unread == 0;
}

// Whether the words say full though nothing is there to be got: then somebody was killed between
// the socket and the words. Looked at twice, since those who are alive are there for a moment only.
bool TensorQueue::State::is_miscounted(std::uint32_t put, std::uint32_t got) const {
  for (int look = 0; look < 2; ++look) {
    if (!socket_is_empty() || words().put.load(std::memory_order_relaxed) != put ||
        words().got.load(std::memory_order_relaxed) != got)
      return false;
    ::sched_yield();
  }
  return true;
}

// One more item may be on its way. False at the deadline.
bool TensorQueue::State::take_place(Deadline deadline) {
  Words& w = words();
  for (;;) {
    // Acquire: the consumer has let go of what it got before it counted it.
    std::uint32_t got = w.got.load(std::memory_order_acquire);
    std::uint32_t put = w.put.load(std::memory_order_relaxed);
    // The difference counts modulo 2^32.
    const auto is_full = [&] {
      return static_cast<std::int32_t>(put - got) >= static_cast<std::int32_t>(w.maxsize);
    };
    if (!is_full()) {
      if (w.put.compare_exchange_weak(put, put + 1, std::memory_order_relaxed)) return true;
      continue;
    }
    check_consumers();
    if (is_miscounted(put, got)) {
      w.got.compare_exchange_strong(got, put, std::memory_order_relaxed);
      continue;
    }
    if (deadline.expired()) return false;
    if (spin_until(2, [&] { return w.got.load(std::memory_order_relaxed) != got; })) continue;
    w.waiting.fetch_add(1, std::memory_order_seq_cst);
    // In slices, at the end of which it looks whether anybody is left who could make room.
    (void)futex_wait(w.got, got, earlier(deadline, in_ms(kLookMs)));
    w.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
}

void TensorQueue::State::give_place_back() {
  words().put.fetch_sub(1, std::memory_order_relaxed);
  futex_wake(words().got);
}

// An item is out of the socket.
void TensorQueue::State::count_got() {
  Words& w = words();
  // Never beyond what was put, which could be after a count was set right a moment too early.
  std::uint32_t got = w.got.load(std::memory_order_relaxed);
  while (w.put.load(std::memory_order_relaxed) != got &&
         !w.got.compare_exchange_weak(got, got + 1, std::memory_order_seq_cst)) {
  }
  if (w.waiting.load(std::memory_order_seq_cst) != 0) futex_wake(w.got);
}

TensorQueue::TensorQueue(std::shared_ptr<State> state) : state_(std::move(state)) {}

TensorQueue::TensorQueue(int maxsize) : state_(std::make_shared<State>()) {
  check(maxsize >= 1, ErrorKind::invalid_argument, "TensorQueue", "a queue for ", maxsize,
        " items; at least 1 is needed");
  auto [getting, putting] = make_socket_pair();
  // More than the default, if the system allows; what it does not is no error.
  const int buffer = static_cast<int>(
      std::min<std::int64_t>(std::int64_t{maxsize} * kItemBytes, std::int64_t{1} << 27));
  int present = 0;
  socklen_t size = sizeof present;
  if (::getsockopt(putting.get(), SOL_SOCKET, SO_SNDBUF, &present, &size) == 0 && present < buffer)
    ::setsockopt(putting.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  state_->put_end = std::make_shared<const Fd>(std::move(putting));
  state_->get_end = std::make_shared<const Fd>(std::move(getting));
  state_->tensor = Tensor::zeros_shared({sizeof(Words)}, DType::u8);
  state_->words().maxsize = static_cast<std::uint32_t>(maxsize);
}

bool TensorQueue::put(const Tensor& tensor, Deadline deadline) {
  return put(Message{.tensors = {tensor}}, deadline);
}

bool TensorQueue::put(const Message& message, Deadline deadline) {
  const int socket = state_->put_fd();
  // Packed first, which can take long: the place is taken only for the moment of sending.
  const Packet packet = pack(message);
  try {
    if (!state_->take_place(deadline)) {
      abandon(packet);
      return false;
    }
  } catch (...) {
    abandon(packet);
    throw;
  }
  try {
    if (send_packed(socket, packet, deadline) == Transfer::done) return true;
  } catch (...) {
    state_->give_place_back();
    state_->check_consumers();  // says more than the socket's error
    throw;
  }
  state_->give_place_back();
  return false;
}

std::optional<Message> TensorQueue::get_message(Deadline deadline) {
  Message message;
  const Transfer got =
      receive_message(state_->get_fd(), message, deadline, [this] { state_->count_got(); });
  if (got == Transfer::closed) state_->drained.store(true, std::memory_order_relaxed);
  if (got != Transfer::done) return std::nullopt;
  return message;
}

std::optional<Tensor> TensorQueue::get(Deadline deadline) {
  auto message = get_message(deadline);
  if (!message) return std::nullopt;
  check(message->tensors.size() == 1, ErrorKind::malformed, "TensorQueue::get", "the item has ",
        message->tensors.size(), " tensors; use get_message");
  return std::move(message->tensors.front());
}

void TensorQueue::close() {
  state_->words().closed.store(1, std::memory_order_release);
  // On the socket itself, whoever has a descriptor of it; what is in its buffer stays. Both ways,
  // since nothing less wakes a producer that sleeps for room.
  const auto& end = state_->put_end != nullptr ? state_->put_end : state_->get_end;
  ::shutdown(end->get(), SHUT_RDWR);
  futex_wake(state_->words().got);
}

bool TensorQueue::is_closed() const { return state_->drained.load(std::memory_order_relaxed); }

int TensorQueue::maxsize() const { return static_cast<int>(state_->words().maxsize); }

int TensorQueue::size() const {
  const Words& w = state_->words();
  const auto got = w.got.load(std::memory_order_relaxed);
  return std::max(0, static_cast<std::int32_t>(w.put.load(std::memory_order_relaxed) - got));
}

TensorQueue TensorQueue::put_end() const {
  (void)state_->put_fd();
  auto end = std::make_shared<State>();
  end->put_end = state_->put_end;
  end->tensor = state_->tensor;
  return TensorQueue(std::move(end));
}

TensorQueue TensorQueue::get_end() const {
  (void)state_->get_fd();
  auto end = std::make_shared<State>();
  end->get_end = state_->get_end;
  end->tensor = state_->tensor;
  return TensorQueue(std::move(end));
}

bool TensorQueue::can_put() const { return state_->put_end != nullptr; }
bool TensorQueue::can_get() const { return state_->get_end != nullptr; }
int TensorQueue::fd() const { return state_->get_end == nullptr ? -1 : state_->get_end->get(); }

TensorQueue::Parts TensorQueue::parts() const {
  return {.put_fd = can_put() ? state_->put_end->get() : -1,
          .get_fd = can_get() ? state_->get_end->get() : -1,
          .words = state_->tensor};
}

TensorQueue TensorQueue::from_parts(Fd put_end, Fd get_end, const Tensor& words) {
  auto state = std::make_shared<State>();
  check(words.defined() && words.dtype() == DType::u8 && words.shape() == Shape{sizeof(Words)} &&
            words.is_contiguous() && words.offset() == 0 && words.is_shared() &&
            !words.is_read_only() && (put_end || get_end),
        ErrorKind::malformed, "receive", "a queue's parts do not fit");
  if (put_end) state->put_end = std::make_shared<const Fd>(std::move(put_end));
  if (get_end) state->get_end = std::make_shared<const Fd>(std::move(get_end));
  state->tensor = words;
  check(state->maxsize_is_sound(), ErrorKind::malformed, "receive", "a queue for ",
        state->words().maxsize, " items");
  return TensorQueue(std::move(state));
}

}  // namespace shoal
