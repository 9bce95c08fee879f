#include "shoal/runtime/tensor/storage.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/segment_pool.h"

namespace shoal {
namespace {

// Held while a storage moves. A few for all, so that they can be held around fork: a child must not
// find one taken by a thread that it does not have.
using Locks = std::array<std::mutex, 16>;

void hold_all(Locks& locks) {
  for (std::mutex& lock : locks) lock.lock();
}
void release_all(Locks& locks) {
  for (std::mutex& lock : locks) lock.unlock();
}

Locks& sharing_locks() {
  static Locks* instance = [] {
    // Handlers run before fork in reverse order of registration: the pool's mutex comes after
    // these, as in share_memory.
    (void)SegmentPool::instance();
    ::pthread_atfork([] { hold_all(sharing_locks()); }, [] { release_all(sharing_locks()); },
                     [] { release_all(sharing_locks()); });
    return new Locks;
  }();
  return *instance;
}

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const Locks& made_at_load = sharing_locks();

std::mutex& lock_of(const Storage* storage) {
  Locks& locks = sharing_locks();
  // Fibonacci hashing, of which the high bits are good: addresses are multiples of a cache line.
  const auto address = static_cast<std::uint64_t>(std::hash<const Storage*>{}(storage));
  return locks[(address * 0x9E3779B97F4A7C15U >> 32U) % locks.size()];
}

}  // namespace

void prepare_sharing_for_fork() { (void)sharing_locks(); }

std::shared_ptr<Storage> Storage::allocate(std::size_t nbytes, Device& device) {
  auto storage = std::allocate_shared<Storage>(CacheAllocator<Storage>(), Key{}, device);
  if (nbytes > 0) storage->data_ = static_cast<std::byte*>(device.allocate(nbytes));
  storage->nbytes_ = nbytes;
  return storage;
}

std::shared_ptr<Storage> Storage::allocate_shared(std::size_t nbytes, SharingStrategy strategy,
                                                  Contents contents) {
  if (nbytes == 0) {
    auto storage = allocate(0);
    storage->share_memory(strategy);
    return storage;
  }
  auto block = SegmentPool::instance().allocate(nbytes, strategy);
  if (contents == Contents::zero) {
    block->fill_zero();
  } else {
    block->prefault();
  }
  return over(std::move(block));
}

std::shared_ptr<Storage> Storage::over(std::shared_ptr<SharedBlock> block, bool read_only) {
  auto storage = std::allocate_shared<Storage>(CacheAllocator<Storage>(), Key{}, cpu());
  // Who may not write has a mapping that takes no writes; the type stays that of all storages.
  storage->data_ = read_only ? const_cast<std::byte*>(block->read_only_data()) : block->data();
  storage->nbytes_ = block->nbytes();
  storage->shared_.store(true, std::memory_order_release);
  storage->read_only_ = read_only;
  storage->block_ = std::move(block);
  return storage;
}

std::shared_ptr<Storage> Storage::borrow(void* data, std::size_t nbytes,
                                         std::shared_ptr<void> lender) {
  check(lender != nullptr && (data != nullptr || nbytes == 0), ErrorKind::invalid_argument,
        "Storage::borrow", "needs a lender, and memory for ", nbytes, " bytes");
  auto storage = std::allocate_shared<Storage>(CacheAllocator<Storage>(), Key{}, cpu());
  storage->data_ = static_cast<std::byte*>(data);
  storage->nbytes_ = nbytes;
  storage->lender_ = std::move(lender);
  return storage;
}

Storage::~Storage() {
  if (block_ == nullptr) give_back_private();
}

void Storage::give_back_private() noexcept {
  if (lender_ != nullptr) {
    lender_.reset();
  } else if (data_ != nullptr) {
    device_->deallocate(data_, nbytes_);
  }
}

void Storage::share_memory(SharingStrategy strategy) {
  if (is_shared()) return;
  const std::scoped_lock hold(lock_of(this));
  if (is_shared()) return;
  if (nbytes_ > 0) {
    auto block = SegmentPool::instance().allocate(nbytes_, strategy);
    block->fill_from(data_);
    give_back_private();
    data_ = block->data();
    block_ = std::move(block);
  }
  shared_.store(true, std::memory_order_release);
}

}  // namespace shoal
