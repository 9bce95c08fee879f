#include "shoal/runtime/ipc/mutex.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <string>
#include <type_traits>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/ipc/shared_words.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace shoal {
namespace {

constexpr WordsKind kKind{.name = "Mutex", .magic = 0x584d'4853 /* "SHMX" */, .version = 1};

struct Words {
  WordsMark mark;
  std::uint32_t mutex_nbytes;  // another C library's has another size
  std::uint32_t unused;
  // Threads, 0 for none. They only say who it was: the mutex itself knows whether it is held.
  std::atomic<std::uint64_t> owner;
  std::atomic<std::uint64_t> died;     // while it held the mutex, last
  std::atomic<std::uint64_t> gave_up;  // unlocked it unrepaired after that
  // Since it is robust, the C library and the kernel keep each thread's held ones in a list through
  // these bytes, so they must stay mapped while it is held. It is never destroyed: there is nothing
  // to free, and nobody who could know that he is the last.
  pthread_mutex_t mutex;
};
static_assert(std::is_standard_layout_v<Words> && offsetof(Words, mutex) == 48 &&
              sizeof(Words) == 48 + sizeof(pthread_mutex_t));

Words& words_of(const Tensor& tensor) { return *static_cast<Words*>(tensor.data_ptr()); }

std::uint64_t pack(ThreadId id) { return std::uint64_t{id.pid} << 32 | id.tid; }
ThreadId unpack(std::uint64_t word) {
  return {.pid = static_cast<std::uint32_t>(word >> 32), .tid = static_cast<std::uint32_t>(word)};
}

std::string name_of(ThreadId id) {
  if (id.pid == 0) return "a process that cannot be named";
  return id.tid == id.pid ? concat("process ", id.pid)
                          : concat("thread ", id.tid, " of process ", id.pid);
}

struct Attributes {
  Attributes() {
    const auto need = [](int result) {
      if (result != 0) throw_errno(result, "pthread_mutexattr");
    };
    need(::pthread_mutexattr_init(&value));
    need(::pthread_mutexattr_setpshared(&value, PTHREAD_PROCESS_SHARED));
    need(::pthread_mutexattr_setrobust(&value, PTHREAD_MUTEX_ROBUST));
    need(::pthread_mutexattr_settype(&value, PTHREAD_MUTEX_ERRORCHECK));
  }
  pthread_mutexattr_t value;
};

// For a lock that was let go of by another than its owner: the owner's list of held ones still
// leads through these bytes, so they stay mapped as long as this process.
void keep_mapped(Tensor tensor) {
  struct Kept {
    Tensor tensor;
    const Kept* before;
  };
  // A list that only grows, and no lock, which a fork could leave locked. Release: for leak
  // checkers and debuggers, the only ones to read it.
  static std::atomic<const Kept*> last{nullptr};
  auto* next = new Kept{std::move(tensor), last.load(std::memory_order_relaxed)};
  while (!last.compare_exchange_weak(next->before, next, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

int lock_for_a_while(pthread_mutex_t& mutex, Deadline deadline) {
  // The clock of Deadline, which nobody sets.
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  const auto left = std::chrono::nanoseconds(deadline.left()).count() + at.tv_nsec;
  constexpr long kSecond = 1'000'000'000;
  at.tv_sec += static_cast<time_t>(left / kSecond);
  at.tv_nsec = static_cast<long>(left % kSecond);
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer knows the other calls by itself, but not this one (GCC 12).
  __tsan_mutex_pre_lock(&mutex, __tsan_mutex_try_lock);
  const int result = ::pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &at);
  const bool taken = result == 0 || result == EOWNERDEAD;
  __tsan_mutex_post_lock(&mutex, __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed),
                         1);
  return result;
#else
  return ::pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &at);
#endif
}

// ETIMEDOUT at the deadline, otherwise as the C library says.
//
// By looking at it again and again: when a mutex has become unrecoverable, glibc wakes only one of
// those who wait (2.36; its lll_unlock takes the mark of waiters for a sign). Nor would its trylock
// do instead of a deadline that has passed: it leaves an unrecoverable mutex locked.
int lock_until(pthread_mutex_t& mutex, Deadline deadline) {
  for (;;) {
    const int result = lock_for_a_while(mutex, earlier(deadline, in_ms(kLookMs)));
    if (result != ETIMEDOUT || deadline.expired()) return result;
  }
}

}  // namespace

Mutex::Mutex(SharingStrategy strategy) : tensor_(make_words(kKind, sizeof(Words), strategy)) {
  Words& w = words_of(tensor_);
  w.mutex_nbytes = sizeof(pthread_mutex_t);
  const Attributes attributes;
  const int result = ::pthread_mutex_init(&w.mutex, &attributes.value);
  if (result != 0) throw_errno(result, "pthread_mutex_init");
}

Mutex::Mutex(const Tensor& tensor) : tensor_(tensor) {
  open_words(kKind, tensor, sizeof(Words));
  const Words& w = words_of(tensor);
  check(tensor.nbytes() == sizeof(Words) && w.mutex_nbytes == sizeof(pthread_mutex_t),
        ErrorKind::malformed, "Mutex", "a mutex of ", w.mutex_nbytes, " bytes in ", tensor.nbytes(),
        "; here it has ", sizeof(pthread_mutex_t), " in ", sizeof(Words));
}

Mutex::Lock Mutex::lock(Deadline deadline) {
  const int result = lock_until(words_of(tensor_).mutex, deadline);
  if (result == ETIMEDOUT) {
    const auto holder = owner();
    throw Error({.kind = ErrorKind::timed_out,
                 .call = "Mutex::lock",
                 .reason = concat(holder ? name_of(*holder) : "another", " holds it")});
  }
  return taken(result);
}

std::optional<Mutex::Lock> Mutex::try_lock() {
  const int result = lock_until(words_of(tensor_).mutex, in_ms(0));
  if (result == ETIMEDOUT) return std::nullopt;
  return taken(result);
}

Mutex::Lock Mutex::taken(int result) {
  Words& w = words_of(tensor_);
  check(result != EDEADLK, ErrorKind::invalid_argument, "Mutex::lock",
        "this thread holds it already");
  if (result == ENOTRECOVERABLE) {
    throw Error({.kind = ErrorKind::peer_gone,
                 .call = "Mutex::lock",
                 .reason = concat(name_of(unpack(w.died.load(std::memory_order_relaxed))),
                                  " died holding it, and ",
                                  name_of(unpack(w.gave_up.load(std::memory_order_relaxed))),
                                  " gave it back unrepaired"),
                 .remedy = "Make a new one"});
  }
  if (result != 0 && result != EOWNERDEAD) throw_errno(result, "pthread_mutex_lock");

  // Relaxed, all of them: the mutex puts its owners in order, for others they are only names.
  const ThreadId self = this_thread();
  std::optional<ThreadId> dead;
  if (result == EOWNERDEAD) {
    const std::uint64_t died = w.owner.load(std::memory_order_relaxed);
    w.died.store(died, std::memory_order_relaxed);
    dead = unpack(died);
  }
  w.owner.store(pack(self), std::memory_order_relaxed);
  return {tensor_, self, dead};
}

std::optional<ThreadId> Mutex::owner() const {
  const auto word = words_of(tensor_).owner.load(std::memory_order_relaxed);
  if (word == 0) return std::nullopt;
  return unpack(word);
}

Mutex::Lock::Lock(Tensor tensor, ThreadId owner, std::optional<ThreadId> dead_owner)
    : tensor_(std::move(tensor)), owner_(owner), dead_owner_(dead_owner) {}

Mutex::Lock::Lock(Lock&& other) noexcept
    : tensor_(std::exchange(other.tensor_, Tensor())),
      owner_(other.owner_),
      dead_owner_(std::exchange(other.dead_owner_, std::nullopt)) {}

Mutex::Lock& Mutex::Lock::operator=(Lock&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  tensor_ = std::exchange(other.tensor_, Tensor());
  owner_ = other.owner_;
  dead_owner_ = std::exchange(other.dead_owner_, std::nullopt);
  return *this;
}

Mutex::Lock::~Lock() { let_go(); }

void Mutex::Lock::let_go() noexcept {
  if (!holds() || give_back()) return;
  if (owner_.pid == this_thread().pid) keep_mapped(std::move(tensor_));
}

// Whether it was the caller's to give.
bool Mutex::Lock::give_back() noexcept {
  // The mutex would see that it is another's, but not if the caller has got it by another Lock.
  if (owner_ != this_thread()) return false;
  Words& w = words_of(tensor_);
  // Before the mutex is lost, so that all who find that know why.
  if (dead_owner_) w.gave_up.store(pack(owner_), std::memory_order_relaxed);
  if (::pthread_mutex_unlock(&w.mutex) != 0) return false;
  // The next owner's name may stand there already.
  std::uint64_t self = pack(owner_);
  w.owner.compare_exchange_strong(self, 0, std::memory_order_relaxed);
  tensor_ = Tensor();
  return true;
}

void Mutex::Lock::make_consistent() {
  check(holds(), ErrorKind::invalid_argument, "Mutex::Lock::make_consistent", "it is unlocked");
  if (!dead_owner_) return;
  check(owner_ == this_thread(), ErrorKind::invalid_argument, "Mutex::Lock::make_consistent",
        name_of(owner_), " locked it, and this is another");
  const int result = ::pthread_mutex_consistent(&words_of(tensor_).mutex);
  if (result != 0) throw_errno(result, "pthread_mutex_consistent");
  dead_owner_.reset();
}

void Mutex::Lock::unlock() {
  check(holds(), ErrorKind::invalid_argument, "Mutex::Lock::unlock", "it is unlocked already");
  check(give_back(), ErrorKind::invalid_argument, "Mutex::Lock::unlock", name_of(owner_),
        " locked it, and this is another");
}

}  // namespace shoal
