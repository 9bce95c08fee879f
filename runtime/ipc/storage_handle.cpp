#include "shoal/runtime/ipc/storage_handle.h"

#include <pthread.h>

#include <map>
#include <mutex>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/ipc/wire.h"

namespace shoal {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;

struct Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<Storage>> known;
  std::size_t prune_at = 64;
};

Registry& registry() {
  static Registry* instance = [] {
    auto* made = new Registry;  // storages may still be released while statics are destroyed
    // A child forked while another thread holds the mutex must find it free. Handlers run before
    // fork in reverse order of registration; asking for the token first puts its mutex after ours
    // there, as everywhere.
    (void)my_token_if_any();
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] { registry().mutex.unlock(); });
    return made;
  }();
  return *instance;
}

Key key_of(const SegmentId& id) { return {id.high, id.low}; }

void remember_locked(Registry& r, const std::shared_ptr<Storage>& storage) {
  if (r.known.size() >= r.prune_at) {
    std::erase_if(r.known, [](const auto& entry) { return entry.second.expired(); });
    // Twice what lives: pruning stays a constant cost per storage.
    r.prune_at = 64 + 2 * r.known.size();
  }
  r.known[key_of(storage->segment()->id())] = storage;
}

std::shared_ptr<Storage> attach(const StorageHandle& handle, Fd memory, TokenId sender) {
  if (handle.strategy == SharingStrategy::file_system)
    return Storage::adopt(Segment::attach(handle.segment, sender));
  check(static_cast<bool>(memory), ErrorKind::malformed, "open_storage",
        "the handle came without its descriptor");
  return Storage::adopt(Segment::attach(std::move(memory), handle.segment));
}

}  // namespace

void remember_storage(const std::shared_ptr<Storage>& storage) {
  if (storage->segment() == nullptr) return;
  Registry& r = registry();
  const std::scoped_lock hold(r.mutex);
  remember_locked(r, storage);
}

std::shared_ptr<Storage> open_storage(const StorageHandle& handle, Fd memory, TokenId sender) {
  if (handle.nbytes == 0) {
    auto storage = Storage::allocate(0);
    storage->share_memory(handle.strategy);
    return storage;
  }
  Registry& r = registry();
  // Held while attaching, so that two threads that receive one segment make one Storage.
  const std::scoped_lock hold(r.mutex);
  const auto found = r.known.find(key_of(handle.segment));
  std::shared_ptr<Storage> storage = found == r.known.end() ? nullptr : found->second.lock();
  if (storage != nullptr) {
    if (handle.strategy == SharingStrategy::file_system)
      storage->segment()->accept_message_hold(sender);
  } else {
    storage = attach(handle, std::move(memory), sender);
    remember_locked(r, storage);
  }
  check(storage->nbytes() == handle.nbytes, ErrorKind::malformed, "open_storage",
        "the handle says ", handle.nbytes, " bytes, the segment has ", storage->nbytes());
  return storage;
}

void write(WireWriter& out, const StorageHandle& handle) {
  out.put(static_cast<std::uint8_t>(handle.strategy));
  out.put(handle.segment);
  out.put(handle.nbytes);
  out.put(handle.fd);
}

StorageHandle read_storage_handle(WireReader& in) {
  StorageHandle handle;
  const auto strategy = in.get<std::uint8_t>();
  check(strategy <= static_cast<std::uint8_t>(SharingStrategy::file_system), ErrorKind::malformed,
        "read_storage_handle", "strategy ", int{strategy}, " is unknown");
  handle.strategy = static_cast<SharingStrategy>(strategy);
  handle.segment = in.get<SegmentId>();
  handle.nbytes = in.get<std::uint64_t>();
  handle.fd = in.get<std::uint32_t>();
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
  check(dtype.has_value() && rank <= kMaxRank, ErrorKind::malformed, "read_tensor_handle",
        "unknown dtype, or ", int{rank}, " axes");
  handle.dtype = *dtype;
  for (int axis = 0; axis < rank; ++axis) handle.shape.push_back(in.get<std::int64_t>());
  for (int axis = 0; axis < rank; ++axis) handle.strides.push_back(in.get<std::int64_t>());
  handle.offset = in.get<std::int64_t>();
  return handle;
}

}  // namespace shoal
