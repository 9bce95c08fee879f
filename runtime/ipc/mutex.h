#pragma once

#include <cstdint>
#include <optional>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/thread_id.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// A lock between processes and threads that survives its owner.
//
// It lives in a shared tensor: send tensor() to have the same mutex elsewhere; a forked child has
// it already. If the owner ends while it holds the lock, its process or only its thread, the next
// one gets the lock together with the owner's name, and the duty to repair what is guarded.
//
//   auto lock = mutex.lock(in_seconds(1));
//   if (lock.dead_owner()) {
//     …                          // make what is guarded whole again
//     lock.make_consistent();
//   }
//
// A lock belongs to the thread that took it. It cannot be taken twice. A forked child holds nothing
// that its parent holds: its copy of a Lock does nothing. Not for processes in different pid
// namespaces, which the kernel takes to be the same if their numbers are. Whoever can write to the
// tensor is trusted, also with addresses in this process. A copy is the same mutex.
class Mutex {
 public:
  class Lock;

  // A new one, free. Throws as SegmentPool::allocate does.
  explicit Mutex(SharingStrategy strategy = get_sharing_strategy());
  // The one in a tensor that arrived. Shares it in place if it is private, which must not happen
  // while it is locked. Throws Error(malformed) and Error(version_mismatch).
  explicit Mutex(const Tensor& tensor);

  // Blocks until the caller has it. Throws Error(timed_out), which names the owner, at the
  // deadline; Error(invalid_argument) if this thread has it; and Error(peer_gone) once it was given
  // back unrepaired after an owner's death. Such a mutex is of no use any more.
  [[nodiscard]] Lock lock(Deadline deadline = kForever);
  // Empty if another thread has it. Throws as lock does.
  [[nodiscard]] std::optional<Lock> try_lock();

  // Who has it at this moment, if anybody; the next moment it may be another.
  [[nodiscard]] std::optional<ThreadId> owner() const;
  // Send this.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  [[nodiscard]] Lock taken(int result);
  Tensor tensor_;
};

// A hold of the mutex, which it keeps in memory. Move-only; of one thread.
class [[nodiscard]] Mutex::Lock {
 public:
  Lock(Lock&& other) noexcept;
  Lock& operator=(Lock&& other) noexcept;
  // Unlocks. Does nothing in a thread or process that does not hold the mutex, which then remains
  // locked until its owner ends.
  ~Lock();

  // Who held the mutex when it died, if this lock comes from the dead and is not repaired yet. All
  // zero if it died before it could write down who it is.
  [[nodiscard]] const std::optional<ThreadId>& dead_owner() const { return dead_owner_; }
  // What is guarded is whole again. Throws Error(invalid_argument) where unlock does.
  void make_consistent();

  // Unlocked unrepaired, after an owner's death, the mutex is lost for all. Throws
  // Error(invalid_argument) in a thread that does not hold it.
  void unlock();
  [[nodiscard]] bool holds() const { return tensor_.defined(); }

 private:
  friend class Mutex;
  Lock(Tensor tensor, ThreadId owner, std::optional<ThreadId> dead_owner);
  [[nodiscard]] bool give_back() noexcept;
  void let_go() noexcept;

  Tensor tensor_;  // undefined when it is unlocked or moved from
  ThreadId owner_;
  std::optional<ThreadId> dead_owner_;
};

}  // namespace shoal
