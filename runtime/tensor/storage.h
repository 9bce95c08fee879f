#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "shoal/runtime/device/device.h"
#include "shoal/runtime/shm/segment.h"
#include "shoal/runtime/shm/sharing_strategy.h"

namespace shoal {

// The identity of bytes. Tensors hold it by shared_ptr, so all views of one storage see the same
// bytes, also after those moved into shared memory.
//
// Reading and writing the bytes is the caller's affair; share_memory may not run while another
// thread uses this storage, since it changes data().
class Storage {
 public:
  // Private memory of `device`, contents undefined; `nbytes` may be 0. Throws Error(no_space).
  [[nodiscard]] static std::shared_ptr<Storage> allocate(std::size_t nbytes,
                                                         Device& device = cpu());

  // Shared memory from the start, zeroed. Throws as Segment::create does.
  [[nodiscard]] static std::shared_ptr<Storage> allocate_shared(std::size_t nbytes,
                                                                SharingStrategy strategy);

  // A segment that came from another process.
  [[nodiscard]] static std::shared_ptr<Storage> adopt(Segment segment);

  // `nbytes` of the cpu's memory that somebody else made and `lender` keeps: not null, and dropped
  // when this storage goes or its bytes move into shared memory, by whichever thread does that.
  [[nodiscard]] static std::shared_ptr<Storage> borrow(void* data, std::size_t nbytes,
                                                       std::shared_ptr<void> lender);

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t nbytes() const { return nbytes_; }
  [[nodiscard]] Device& device() const { return *device_; }

  // Moves the bytes into shared memory, once; later calls, whatever their strategy, do nothing.
  // A storage of no bytes becomes shared without any memory. On failure nothing has changed.
  // Several threads may call it at once.
  void share_memory(SharingStrategy strategy);
  [[nodiscard]] bool is_shared() const { return shared_; }

  // Where the bytes live; null for private and for empty storages.
  [[nodiscard]] Segment* segment() const { return segment_.get(); }

 private:
  explicit Storage(Device& device) : device_(&device) {}
  void give_back_private() noexcept;

  Device* device_;
  std::mutex sharing_;
  std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  bool shared_ = false;
  std::unique_ptr<Segment> segment_;
  std::shared_ptr<void> lender_;
};

}  // namespace shoal
