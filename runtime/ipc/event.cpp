#include "shoal/runtime/ipc/event.h"

#include <array>
#include <atomic>
#include <type_traits>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/spin.h"
#include "shoal/runtime/ipc/shared_words.h"

namespace shoal {
namespace {

constexpr WordsKind kKind{.name = "Event", .magic = 0x5645'4853 /* "SHEV" */, .version = 1};

// Of the state. Above them is counted how often it was set: a change of that is seen even by those
// who look only when it is clear again.
constexpr std::uint32_t kSet = 1, kPoisoned = 2, kOneTime = 4;

struct Words {
  WordsMark mark;
  FutexWord state;  // who waits sleeps here
  FutexWord sleepers;
  std::atomic<std::uint32_t> poisoners;  // the first of them writes the reason
  SharedText reason;
};
static_assert(sizeof(Words) == 256 && std::is_standard_layout_v<Words>);

Words& words_of(const Tensor& tensor) { return *static_cast<Words*>(tensor.data_ptr()); }

}  // namespace

Event::Event(SharingStrategy strategy) : tensor_(make_words(kKind, sizeof(Words), strategy)) {}

Event::Event(const Tensor& tensor) : tensor_(tensor) {
  open_words(kKind, tensor, sizeof(Words));
  check(tensor.nbytes() == sizeof(Words), ErrorKind::malformed, "Event", tensor.nbytes(),
        " bytes; an event has ", sizeof(Words));
}

void Event::set() {
  Words& w = words_of(tensor_);
  std::uint32_t state = w.state.load(std::memory_order_relaxed);
  // Release, even if it is set already: later waiters see what this caller wrote, too.
  while (
      !w.state.compare_exchange_weak(state, (state | kSet) + kOneTime, std::memory_order_seq_cst)) {
  }
  ring(w.state, w.sleepers);
}

void Event::clear() { words_of(tensor_).state.fetch_and(~kSet, std::memory_order_acq_rel); }

bool Event::is_set() const {
  return (words_of(tensor_).state.load(std::memory_order_acquire) & kSet) != 0;
}

bool Event::wait(Deadline deadline) const {
  Words& w = words_of(tensor_);
  std::uint32_t now = w.state.load(std::memory_order_acquire);
  const std::uint32_t before = now;
  const auto is_over = [&] {
    // Acquire: what was written before set(), or before poison().
    now = w.state.load(std::memory_order_acquire);
    return (now & (kSet | kPoisoned)) != 0 || now / kOneTime != before / kOneTime;
  };
  constexpr int kParties = 2;  // who waits and who sets
  if (!spin_until(kParties, is_over)) {
    while (!is_over()) {
      if (deadline.expired()) return false;
      sleep_on(w.state, now, w.sleepers, deadline);
    }
  }
  check((now & kPoisoned) == 0, ErrorKind::worker_failed, "Event::wait",
        "it will never be set: ", w.reason.read());
  return true;
}

void Event::poison(std::string_view reason) {
  Words& w = words_of(tensor_);
  if (w.poisoners.fetch_add(1, std::memory_order_relaxed) == 0) w.reason.write(reason);
  // Whoever comes first, so that it takes effect even if the one who writes the reason has died.
  w.state.fetch_or(kPoisoned, std::memory_order_seq_cst);
  ring(w.state, w.sleepers);
}

}  // namespace shoal
