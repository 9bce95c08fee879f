#include "shoal/runtime/shm/shared_block.h"

#include <cstring>

#include "shoal/runtime/base/stream_copy.h"
#include "shoal/runtime/shm/segment_pool_state.h"

namespace shoal {
namespace {

// Filling fresh memory by pwrite pays from here on, up to where huge pages are to be had.
constexpr std::size_t kBulk = std::size_t{64} << 10;
constexpr std::size_t kHuge = std::size_t{4} << 20;

}  // namespace

SharedBlock::SharedBlock(Key, PoolSegment& home, std::uint32_t index, std::size_t offset,
                         std::size_t nbytes, bool fresh)
    : home_(&home),
      data_(home.segment->data() + offset),
      index_(index),
      fresh_(fresh),
      offset_(offset),
      nbytes_(nbytes) {}

SharedBlock::~SharedBlock() {
  PoolState& state = *SegmentPool::instance().state_;
  try {
    const std::scoped_lock hold(state.mutex);
    state.give_back(*this);
  } catch (const std::exception&) {
    // No memory for the record: the block stays unused until its segment goes.
  }
}

const std::byte* SharedBlock::read_only_data() const {
  const std::scoped_lock hold(SegmentPool::instance().state_->mutex);
  return home_->segment->read_only_data() + offset_;
}

SharingStrategy SharedBlock::strategy() const { return home_->segment->strategy(); }
const SegmentId& SharedBlock::segment_id() const { return home_->segment->id(); }
std::string SharedBlock::segment_name() const { return home_->segment->name(); }

void SharedBlock::fill_from(const void* from) {
  if (fresh_ && nbytes_ >= kBulk && nbytes_ < kHuge) {
    home_->segment->write_through(offset_, from, nbytes_);
  } else {
    if (nbytes_ >= kHuge) prefault();
    if (nbytes_ >= kStreamFrom && nbytes_ < kHuge) {
      stream_copy(data_, from, nbytes_);
    } else {
      std::memcpy(data_, from, nbytes_);
    }
  }
  fresh_ = false;
}

void SharedBlock::fill_zero() noexcept {
  if (fresh_) {
    prefault();
  } else {
    std::memset(data_, 0, nbytes_);
  }
}

void SharedBlock::prefault() noexcept {
  if (fresh_ && nbytes_ >= kPageSize) home_->segment->prefault(offset_, nbytes_);
}

Slot SharedBlock::slot() const {
  const std::scoped_lock hold(SegmentPool::instance().state_->mutex);
  return home_->segment->slot();
}

bool SharedBlock::is_alive(Slot slot) const {
  const std::scoped_lock hold(SegmentPool::instance().state_->mutex);
  return home_->segment->is_alive(slot);
}

std::uint32_t SharedBlock::pid_of(Slot slot) const { return home_->segment->taker(slot); }

}  // namespace shoal
