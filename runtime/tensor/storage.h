#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "shoal/runtime/device/device.h"
#include "shoal/runtime/shm/shared_block.h"
#include "shoal/runtime/shm/sharing_strategy.h"

namespace shoal {

// What shared memory is made to contain.
enum class Contents { undefined, zero };

// The identity of bytes. Tensors hold it by shared_ptr, so all views of one storage see the same
// bytes, also after those moved into shared memory. Its size never changes.
//
// Reading and writing the bytes is the caller's affair; share_memory may not run while another
// thread uses this storage, since it changes data().
class Storage {
  struct Key {};

 public:
  // For the calls that follow.
  Storage(Key /*key*/, Device& device) : device_(&device) {}

  // Private memory of `device`, contents undefined; `nbytes` may be 0. Throws Error(no_space).
  [[nodiscard]] static std::shared_ptr<Storage> allocate(std::size_t nbytes,
                                                         Device& device = cpu());

  // Shared memory from the start. Throws as SegmentPool::allocate does.
  [[nodiscard]] static std::shared_ptr<Storage> allocate_shared(std::size_t nbytes,
                                                                SharingStrategy strategy,
                                                                Contents contents = Contents::zero);

  // Over a block of shared memory. Read-only: a write to the bytes through it raises SIGSEGV.
  [[nodiscard]] static std::shared_ptr<Storage> over(std::shared_ptr<SharedBlock> block,
                                                     bool read_only = false);

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
  [[nodiscard]] bool is_read_only() const { return read_only_; }

  // Changes whenever a call of Shoal's writes to the bytes through this storage; what is written
  // through data(), or by other processes, does not count. So who keeps a value for later can tell
  // that it is no longer what it was.
  [[nodiscard]] std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  // Relaxed, and no read-modify-write: two writers at once may count as one, which is a change
  // still.
  void count_write() { version_.store(version() + 1, std::memory_order_relaxed); }

  // Moves the bytes into shared memory, once; later calls, whatever their strategy, do nothing.
  // A storage of no bytes becomes shared without any memory. On failure nothing has changed.
  // Several threads may call it at once.
  void share_memory(SharingStrategy strategy);
  [[nodiscard]] bool is_shared() const { return shared_.load(std::memory_order_acquire); }

  // Where the bytes live; null for private and for empty storages.
  [[nodiscard]] const std::shared_ptr<SharedBlock>& block() const { return block_; }

 private:
  void give_back_private() noexcept;

  Device* device_;
  std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  std::atomic<bool> shared_{false};  // released once data_ and block_ are set
  bool read_only_ = false;
  std::atomic<std::uint32_t> version_{0};
  std::shared_ptr<SharedBlock> block_;
  std::shared_ptr<void> lender_;
};

// Makes share_memory safe across fork from now on, as its first call does. For those who share
// while they hold a lock of their own that is held around fork, too: registered first, it comes
// after.
void prepare_sharing_for_fork();

}  // namespace shoal
