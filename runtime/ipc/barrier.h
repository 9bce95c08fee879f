#pragma once

#include <cstdint>
#include <string_view>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// Where `world_size` parties, processes or threads, wait for each other, again and again.
//
// It lives in a shared tensor: send tensor() to make the same barrier elsewhere; a forked child has
// it already. Each party has a rank of its own. What any party wrote before it arrived, all see
// once they are let through. Nobody holds a lock, so nobody can die with one.
//
// Either all parties get through or none: a peer that has died, one that nobody waits for any
// longer, or one that says it cannot go on breaks the barrier. All who wait then throw the same
// Error, and so does every later wait until reset():
//   peer_gone      a rank has ended without arriving; its rank and process id. Seen while waiting,
//                  within some 20 ms. A rank is known from its join() or first wait on, so one that
//                  dies before that is missed at a deadline only.
//   timed_out      somebody's deadline passed; all ranks that were missing.
//   worker_failed  somebody called poison(); its rank and reason.
//
// A rank that dies after it arrived has done its part: that round succeeds, and the next fails.
// Of threads in one process that goes on, nothing can be seen. A rank belongs to the process that
// joined with it, a forked child being another process, until that ends; used by one thread at a
// time. Safe from many threads. A copy is the same barrier.
class Barrier {
 public:
  static constexpr int kMaxWorldSize = 1024;

  // A new one. Throws Error(invalid_argument), and as SegmentPool::allocate does.
  explicit Barrier(int world_size, SharingStrategy strategy = get_sharing_strategy());
  // The one in a tensor that arrived. Shares it in place if it is private. Throws Error(malformed)
  // and Error(version_mismatch).
  explicit Barrier(const Tensor& tensor);

  // Says that this process is this rank, so that the others notice if it dies. Throws
  // Error(invalid_argument) for a rank that another living process has.
  void join(int rank);

  // Joins, arrives, and returns when all ranks have. Throws as said above; at a deadline that has
  // passed already only if anybody is missing. Error(invalid_argument) for a rank out of range, or
  // that waits already.
  void wait(int rank, Deadline deadline = kForever);

  // This rank cannot go on: breaks the barrier, unless it is broken. May also be called for one
  // that has ended, by whoever knows why. The reason is cut after about 200 bytes.
  void poison(int rank, std::string_view reason);

  // Makes a broken barrier whole again, and forgets which dead processes had ranks, so that others
  // may take these. Whoever still waits throws. All parties may call it.
  void reset();

  [[nodiscard]] bool is_broken() const;
  // How many ranks have arrived and wait for the rest, at this moment.
  [[nodiscard]] int arrived() const;
  [[nodiscard]] int world_size() const;
  // Send this.
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
};

}  // namespace shoal
