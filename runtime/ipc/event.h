#pragma once

#include <string_view>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// A flag that processes and threads wait for: set() lets all through until clear().
//
// It lives in a shared tensor: send tensor() to have the same event elsewhere; a forked child has
// it already. What was written before set() is seen by those whom it lets through. Who will set it
// is known to nobody, so, other than with a Barrier, no death of a process ends a wait: give a
// deadline, or have whoever notices the death call poison(). Safe from many threads. A copy is the
// same event.
class Event {
 public:
  // A new one, clear. Throws as SegmentPool::allocate does.
  explicit Event(SharingStrategy strategy = get_sharing_strategy());
  // The one in a tensor that arrived. Shares it in place if it is private. Throws Error(malformed)
  // and Error(version_mismatch).
  explicit Event(const Tensor& tensor);

  // Lets through all who wait, even if it is cleared before they run.
  void set();
  void clear();
  [[nodiscard]] bool is_set() const;

  // True once it is set, or was since the call. False at the deadline. Throws Error(worker_failed)
  // once it is poisoned, set or not.
  [[nodiscard]] bool wait(Deadline deadline = kForever) const;

  // It will never be set: now and later all waits throw this reason, that of the first call. Cannot
  // be undone. The reason is cut after about 200 bytes.
  void poison(std::string_view reason);

  // Send this.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
};

}  // namespace shoal
