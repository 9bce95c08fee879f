#include "shoal/runtime/tensor/storage.h"

#include "shoal/runtime/base/error.h"

namespace shoal {

std::shared_ptr<Storage> Storage::allocate(std::size_t nbytes, Device& device) {
  std::shared_ptr<Storage> storage(new Storage(device));
  if (nbytes > 0) storage->data_ = static_cast<std::byte*>(device.allocate(nbytes));
  storage->nbytes_ = nbytes;
  return storage;
}

std::shared_ptr<Storage> Storage::allocate_shared(std::size_t nbytes, SharingStrategy strategy) {
  if (nbytes > 0) return adopt(Segment::create(nbytes, strategy));
  auto storage = allocate(0);
  storage->share_memory(strategy);
  return storage;
}

std::shared_ptr<Storage> Storage::adopt(Segment segment) {
  std::shared_ptr<Storage> storage(new Storage(cpu()));
  storage->segment_ = std::make_unique<Segment>(std::move(segment));
  storage->data_ = storage->segment_->data();
  storage->nbytes_ = storage->segment_->nbytes();
  storage->shared_ = true;
  return storage;
}

std::shared_ptr<Storage> Storage::borrow(void* data, std::size_t nbytes,
                                         std::shared_ptr<void> lender) {
  check(lender != nullptr && (data != nullptr || nbytes == 0), ErrorKind::invalid_argument,
        "Storage::borrow", "needs a lender, and memory for ", nbytes, " bytes");
  std::shared_ptr<Storage> storage(new Storage(cpu()));
  storage->data_ = static_cast<std::byte*>(data);
  storage->nbytes_ = nbytes;
  storage->lender_ = std::move(lender);
  return storage;
}

Storage::~Storage() {
  if (segment_ == nullptr) give_back_private();
}

void Storage::give_back_private() noexcept {
  if (lender_ != nullptr) {
    lender_.reset();
  } else if (data_ != nullptr) {
    device_->deallocate(data_);
  }
}

void Storage::share_memory(SharingStrategy strategy) {
  const std::scoped_lock hold(sharing_);
  if (shared_) return;
  if (nbytes_ > 0) {
    auto segment = std::make_unique<Segment>(Segment::create(nbytes_, strategy));
    device_->copy(segment->data(), data_, nbytes_);
    give_back_private();
    data_ = segment->data();
    segment_ = std::move(segment);
  }
  shared_ = true;
}

}  // namespace shoal
