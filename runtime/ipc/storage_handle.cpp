#include "shoal/runtime/ipc/storage_handle.h"

#include <pthread.h>

#include <mutex>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/wire.h"

namespace shoal {
namespace {

// Guards what was made over blocks, in all of them.
std::mutex& registry() {
  static std::mutex* instance = [] {
    auto* made = new std::mutex;  // storages may still be received while statics are destroyed
    // A child forked while another thread holds the mutex must find it free. Handlers run before
    // fork in reverse order of registration; asking for these first puts theirs after ours there,
    // as everywhere.
    prepare_sharing_for_fork();
    ::pthread_atfork([] { registry().lock(); }, [] { registry().unlock(); },
                     [] { registry().unlock(); });
    return made;
  }();
  return *instance;
}

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const std::mutex& made_at_load = registry();

}  // namespace

void remember_storages(std::span<const std::shared_ptr<Storage>> storages) {
  const std::scoped_lock hold(registry());
  for (const auto& storage : storages)
    if (const auto& block = storage->block()) block->made_over(storage->is_read_only()) = storage;
}

std::vector<std::shared_ptr<Storage>> open_storages(
    std::span<const StorageHandle> handles, std::span<const std::unique_ptr<Arrival>> arrivals) {
  std::vector<std::shared_ptr<Storage>> storages;
  storages.reserve(handles.size());
  // Held while taking, so that two threads that receive one block make one Storage.
  const std::scoped_lock hold(registry());
  for (const StorageHandle& handle : handles) {
    if (handle.segment == StorageHandle::kNoSegment) {
      storages.push_back(Storage::allocate_shared(0, get_sharing_strategy()));
      continue;
    }
    auto block = arrivals[handle.segment]->take(handle.block);
    std::weak_ptr<void>& made_over = block->made_over(handle.read_only);
    auto storage = std::static_pointer_cast<Storage>(made_over.lock());
    if (storage == nullptr) {
      storage = Storage::over(std::move(block), handle.read_only);
      made_over = storage;
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
  out.put_all(handle.shape);
  out.put_all(handle.strides);
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
  for (Dims* dims : {&handle.shape, &handle.strides}) {
    *dims = Dims::filled(rank, 0);
    for (int axis = 0; axis < rank; ++axis) (*dims)[axis] = in.get<std::int64_t>();
  }
  handle.offset = in.get<std::int64_t>();
  return handle;
}

}  // namespace shoal
