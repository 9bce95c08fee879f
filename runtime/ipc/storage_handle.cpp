#include "shoal/runtime/ipc/storage_handle.h"

#include <pthread.h>

#include <mutex>
#include <unordered_map>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/ipc/wire.h"

namespace shoal {
namespace {

struct Key {
  SegmentId segment;
  std::uint32_t block = 0;
  bool read_only = false;
  friend bool operator==(const Key&, const Key&) = default;
};

// Ids are random, so a part of one is as good as a hash.
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return key.segment.low + 2 * std::size_t{key.block} + (key.read_only ? 1 : 0);
  }
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<Key, std::weak_ptr<Storage>, KeyHash> known;
  std::size_t prune_at = 64;
};

Registry& registry() {
  static Registry* instance = [] {
    auto* made = new Registry;  // storages may still be released while statics are destroyed
    // A child forked while another thread holds the mutex must find it free. Handlers run before
    // fork in reverse order of registration; asking for these first puts theirs after ours there,
    // as everywhere.
    prepare_sharing_for_fork();
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] { registry().mutex.unlock(); });
    return made;
  }();
  return *instance;
}

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const Registry& made_at_load = registry();

void remember_locked(Registry& r, const Key& key, const std::shared_ptr<Storage>& storage) {
  if (r.known.size() >= r.prune_at) {
    std::erase_if(r.known, [](const auto& entry) { return entry.second.expired(); });
    // Twice what lives: pruning stays a constant cost per storage.
    r.prune_at = 64 + 2 * r.known.size();
  }
  r.known[key] = storage;
}

}  // namespace

void remember_storages(std::span<const std::shared_ptr<Storage>> storages) {
  Registry& r = registry();
  const std::scoped_lock hold(r.mutex);
  for (const auto& storage : storages)
    if (const auto& block = storage->block())
      remember_locked(r, {block->segment_id(), block->index(), storage->is_read_only()}, storage);
}

std::vector<std::shared_ptr<Storage>> open_storages(
    std::span<const StorageHandle> handles, std::span<const std::unique_ptr<Arrival>> arrivals) {
  std::vector<std::shared_ptr<Storage>> storages;
  storages.reserve(handles.size());
  Registry& r = registry();
  // Held while taking, so that two threads that receive one block make one Storage.
  const std::scoped_lock hold(r.mutex);
  for (const StorageHandle& handle : handles) {
    if (handle.segment == StorageHandle::kNoSegment) {
      storages.push_back(Storage::allocate_shared(0, get_sharing_strategy()));
      continue;
    }
    auto block = arrivals[handle.segment]->take(handle.block);
    const Key key{block->segment_id(), block->index(), handle.read_only};
    const auto found = r.known.find(key);
    auto storage = found == r.known.end() ? nullptr : found->second.lock();
    if (storage == nullptr || storage->block() != block) {
      storage = Storage::over(std::move(block), handle.read_only);
      remember_locked(r, key, storage);
    }
    storages.push_back(std::move(storage));
  }
  return storages;
}

void write(WireWriter& out, const SegmentHandle& handle) {
  out.put(handle.id);
  out.put(static_cast<std::uint8_t>(handle.kind));
  out.put(handle.flight);
  out.put(handle.fd);
}

SegmentHandle read_segment_handle(WireReader& in) {
  SegmentHandle handle;
  handle.id = in.get<SegmentId>();
  const auto kind = in.get<std::uint8_t>();
  check(kind <= static_cast<std::uint8_t>(FlightKind::pooled), ErrorKind::malformed, "receive",
        "flights of kind ", int{kind}, " are unknown");
  handle.kind = static_cast<FlightKind>(kind);
  handle.flight = in.get<Slot>();
  handle.fd = in.get<std::uint32_t>();
  return handle;
}

void write(WireWriter& out, const StorageHandle& handle) {
  out.put(handle.segment);
  out.put(handle.block.index);
  out.put(handle.block.offset);
  out.put(handle.block.nbytes);
  out.put(static_cast<std::uint8_t>(handle.read_only));
}

StorageHandle read_storage_handle(WireReader& in) {
  StorageHandle handle;
  handle.segment = in.get<std::uint32_t>();
  handle.block.index = in.get<std::uint32_t>();
  handle.block.offset = in.get<std::uint64_t>();
  handle.block.nbytes = in.get<std::uint64_t>();
  const auto read_only = in.get<std::uint8_t>();
  check(read_only <= 1, ErrorKind::malformed, "receive", "a storage is neither read-only nor not");
  handle.read_only = read_only == 1;
  return handle;
}

void write(WireWriter& out, const TensorHandle& handle) {
  out.put(handle.storage);
  out.put(static_cast<std::uint8_t>(handle.dtype));
  out.put(static_cast<std::uint8_t>(handle.shape.rank()));
  for (const std::int64_t size : handle.shape) out.put(size);
  for (const std::int64_t stride : handle.strides) out.put(stride);
  out.put(handle.offset);
}

TensorHandle read_tensor_handle(WireReader& in) {
  TensorHandle handle;
  handle.storage = in.get<std::uint32_t>();
  const auto dtype = dtype_from_wire(in.get<std::uint8_t>());
  const auto rank = in.get<std::uint8_t>();
  check(dtype.has_value() && rank <= kMaxRank, ErrorKind::malformed, "receive",
        "a tensor of unknown dtype, or of ", int{rank}, " axes");
  handle.dtype = *dtype;
  for (int axis = 0; axis < rank; ++axis) handle.shape.push_back(in.get<std::int64_t>());
  for (int axis = 0; axis < rank; ++axis) handle.strides.push_back(in.get<std::int64_t>());
  handle.offset = in.get<std::int64_t>();
  return handle;
}

}  // namespace shoal
