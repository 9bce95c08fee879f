#include "shoal/runtime/ipc/message.h"

#include <algorithm>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/base/wire.h"
#include "shoal/runtime/ipc/storage_handle.h"

// A packet: magic, version, flags; then the body, or where in shared memory the body lies.
//
// The body: tag, bytes, the number of the sender's own descriptors (they come first), queues,
// segments, storages, tensors. The last tensors are the words of the queues, one each; the
// descriptors of their ends follow the sender's own.
namespace shoal {
namespace {

constexpr std::uint32_t kMagic = 0x4c41'4f53;  // "SOAL"
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kSpilled = 1;  // the body lies in a block
constexpr std::uint32_t kBundled = 2;  // the descriptors come in a socket
constexpr std::size_t kMostBody = kMaxPacketBytes - 3 * sizeof(std::uint32_t);
// Against a peer that announces nonsense. A handle takes at least so many bytes: a tensor's does.
constexpr std::size_t kLeastHandle = 14;
constexpr std::size_t kMostFds = std::size_t{1} << 20;

// Which ends of a queue a message carries.
struct QueueEnds {
  bool put = false, get = false;
};

// Takes the holds for the message on its way, and describes what it is held under.
std::vector<SegmentHandle> depart(Packet& packet,
                                  std::span<const std::shared_ptr<SharedBlock>> blocks) {
  std::vector<SegmentHandle> handles;
  for (Departure& departure : SegmentPool::instance().depart(blocks)) {
    handles.push_back({.id = departure.id,
                       .kind = departure.flight->kind,
                       .flight = departure.flight->slot,
                       .fd = static_cast<std::uint32_t>(packet.fds.size())});
    packet.fds.push_back(departure.flight->memory.get());
    packet.departures.push_back(std::move(departure));
  }
  return handles;
}

StorageHandle describe(const Storage& storage, std::span<const SegmentHandle> segments) {
  StorageHandle handle{.read_only = storage.is_read_only()};
  const auto& block = storage.block();
  if (block == nullptr) return handle;
  const auto at = std::ranges::find(segments, block->segment_id(), &SegmentHandle::id);
  handle.segment = static_cast<std::uint32_t>(at - segments.begin());
  handle.block = {.index = block->index(), .offset = block->offset(), .nbytes = block->nbytes()};
  return handle;
}

// Each once, in the order of their addresses, by which they are found again.
std::vector<std::shared_ptr<Storage>> storages_of(std::span<const Tensor* const> tensors) {
  std::vector<std::shared_ptr<Storage>> storages;
  storages.reserve(tensors.size());
  for (const Tensor* tensor : tensors) storages.push_back(tensor->storage());
  std::ranges::sort(storages);
  storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
  return storages;
}

template <class Handle>
void write_all(WireWriter& writer, const std::vector<Handle>& handles) {
  writer.put(static_cast<std::uint32_t>(handles.size()));
  for (const Handle& handle : handles) write(writer, handle);
}

template <class Read>
auto read_all(WireReader& reader, const Read& read) {
  std::vector<decltype(read(reader))> handles;
  auto count = reader.get<std::uint32_t>();
  // What is announced may be nonsense.
  handles.reserve(std::min<std::size_t>(count, reader.left() / kLeastHandle));
  for (; count > 0; --count) handles.push_back(read(reader));
  return handles;
}

std::vector<std::byte> write_body(const Message& message, Packet& packet) {
  std::vector<const Tensor*> tensors;
  tensors.reserve(message.tensors.size() + message.queues.size());
  for (const Tensor& tensor : message.tensors) tensors.push_back(&tensor);
  for (const TensorQueue& queue : message.queues) tensors.push_back(&queue.parts().words);
  for (const Tensor* tensor : tensors) {
    check(tensor->defined(), ErrorKind::invalid_argument, "send", "a tensor is undefined");
    tensor->share_memory();
  }
  packet.storages = storages_of(tensors);
  std::vector<std::shared_ptr<SharedBlock>> blocks;
  blocks.reserve(packet.storages.size());
  for (const auto& storage : packet.storages)
    if (storage->block() != nullptr) blocks.push_back(storage->block());
  for (const Fd& fd : message.fds) packet.fds.push_back(fd.get());
  std::vector<QueueEnds> queues;
  for (const TensorQueue& queue : message.queues) {
    const auto& [put_fd, get_fd, words] = queue.parts();
    queues.push_back({put_fd >= 0, get_fd >= 0});
    for (const int end : {put_fd, get_fd})
      if (end >= 0) packet.fds.push_back(end);
    packet.queues.push_back(queue);
  }
  remember_storages(packet.storages);
  const std::vector<SegmentHandle> segments = depart(packet, blocks);
  std::vector<StorageHandle> storages;
  storages.reserve(packet.storages.size());
  for (const auto& storage : packet.storages) storages.push_back(describe(*storage, segments));

  WireWriter writer;
  // About what it takes; more is no error.
  constexpr std::size_t kPerTensor = 96;
  writer.reserve(message.tag.size() + message.bytes.size() + kPerTensor * (tensors.size() + 1));
  writer.put_text(message.tag);
  writer.put_bytes(message.bytes);
  writer.put(static_cast<std::uint32_t>(message.fds.size()));
  writer.put(static_cast<std::uint32_t>(queues.size()));
  for (const QueueEnds& ends : queues) writer.put(ends);
  write_all(writer, segments);
  write_all(writer, storages);
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  for (const Tensor* tensor : tensors) {
    const auto at = std::ranges::lower_bound(packet.storages, tensor->storage());
    write(writer, {.storage = static_cast<std::uint32_t>(at - packet.storages.begin()),
                   .dtype = tensor->dtype(),
                   .shape = tensor->shape(),
                   .strides = tensor->strides(),
                   .offset = tensor->offset()});
  }
  return writer.take();
}

// Puts a long body into shared memory and describes it instead.
std::vector<std::byte> spill(const std::vector<std::byte>& body, Packet& packet) {
  auto storage = Storage::allocate_shared(body.size(), get_sharing_strategy(), Contents::undefined);
  std::ranges::copy(body, storage->data());
  const auto segments = depart(packet, std::span(&storage->block(), 1));
  WireWriter writer;
  write(writer, segments.at(0));
  write(writer, describe(*storage, segments));
  packet.storages.push_back(std::move(storage));
  return writer.take();
}

// Nobody reads the socket before its end is closed here, so all has to fit its buffer.
void bundle(Packet& packet) {
  auto [reading, writing] = make_socket_pair();
  std::span<const int> fds = packet.fds;
  const std::byte nothing{};
  while (!fds.empty()) {
    const auto here = fds.first(std::min(fds.size(), kMaxPacketFds));
    fds = fds.subspan(here.size());
    check(send_packet(writing.get(), std::span(&nothing, 1), here, in_ms(0)) == Transfer::done,
          ErrorKind::limit_reached, "send", packet.fds.size(),
          " descriptors are too many for one message");
  }
  packet.bundle = std::move(reading);
  packet.fds = {packet.bundle.get()};
}

std::vector<Fd> unbundle(const std::vector<Fd>& packed) {
  check(packed.size() == 1, ErrorKind::malformed, "receive", "a bundle of descriptors is missing");
  std::vector<Fd> fds;
  std::byte nothing{};
  std::size_t nbytes = 0, before = 0;
  // All was written before it was sent: what is not there now never comes.
  while (receive_packet(packed[0].get(), std::span(&nothing, 1), nbytes, fds, in_ms(0)) ==
         Transfer::done) {
    check(fds.size() > before && fds.size() <= kMostFds, ErrorKind::malformed, "receive",
          "a bundle of descriptors is none, or has no end");
    before = fds.size();
  }
  return fds;
}

// A descriptor named by the message; each may be taken once.
Fd take_fd(std::vector<Fd>& fds, std::uint32_t index) {
  check(index < fds.size() && static_cast<bool>(fds[index]), ErrorKind::malformed, "receive",
        "descriptor ", index, " of ", fds.size(), " is missing");
  return std::move(fds[index]);
}

std::unique_ptr<Arrival> arrive(const SegmentHandle& handle, std::vector<Fd>& fds) {
  return SegmentPool::instance().arrive(handle.id, take_fd(fds, handle.fd), handle.kind,
                                        handle.flight);
}

// Copied out of shared memory before it is looked at, since its sender could still change it.
std::vector<std::byte> read_spilled(WireReader& reader, std::vector<Fd>& fds) {
  const SegmentHandle segment = read_segment_handle(reader);
  const StorageHandle storage = read_storage_handle(reader);
  const auto arrival = arrive(segment, fds);
  arrival->expect(storage.block);
  const auto block = arrival->take(storage.block);
  return {block->data(), block->data() + block->nbytes()};
}

Message read_body(std::span<const std::byte> body, std::vector<Fd> fds) {
  WireReader reader(body);
  Message message;
  message.tag = reader.get_text();
  const auto bytes = reader.get_bytes();
  message.bytes.assign(bytes.begin(), bytes.end());
  const auto own_fds = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < own_fds; ++i) message.fds.push_back(take_fd(fds, i));
  std::vector<std::pair<Fd, Fd>> ends;  // of queues
  const auto queues = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0, next = own_fds; i < queues; ++i) {
    const auto has_put = reader.get<std::uint8_t>(), has_get = reader.get<std::uint8_t>();
    auto& [put_end, get_end] = ends.emplace_back();
    if (has_put != 0) put_end = take_fd(fds, next++);
    if (has_get != 0) get_end = take_fd(fds, next++);
  }
  const auto segments = read_all(reader, read_segment_handle);
  const auto storages = read_all(reader, read_storage_handle);
  const auto tensors = read_all(reader, read_tensor_handle);
  reader.expect_end();

  // From here on each arrival lets go of what is not taken, whatever is wrong with the rest.
  std::vector<std::unique_ptr<Arrival>> arrivals;
  arrivals.reserve(segments.size());
  for (const SegmentHandle& segment : segments) arrivals.push_back(arrive(segment, fds));
  for (const StorageHandle& storage : storages) {
    if (storage.segment == StorageHandle::kNoSegment) continue;
    check(storage.segment < arrivals.size(), ErrorKind::malformed, "receive",
          "a storage in segment ", storage.segment, " of ", arrivals.size());
    arrivals[storage.segment]->expect(storage.block);
  }
  const std::vector<std::shared_ptr<Storage>> opened = open_storages(storages, arrivals);
  message.tensors.reserve(tensors.size());
  for (const TensorHandle& tensor : tensors) {
    check(tensor.storage < opened.size(), ErrorKind::malformed, "receive", "a tensor over storage ",
          tensor.storage, " of ", opened.size());
    try {
      message.tensors.push_back(Tensor::over(opened[tensor.storage], tensor.dtype, tensor.shape,
                                             tensor.strides, tensor.offset));
    } catch (const Error& error) {
      // The sender's fault, not the caller's.
      check(error.kind() != ErrorKind::invalid_argument, ErrorKind::malformed, "receive",
            error.reason());
      throw;
    }
  }
  check(ends.size() <= message.tensors.size(), ErrorKind::malformed, "receive",
        "a queue came without its words");
  const auto first_words = message.tensors.end() - static_cast<std::ptrdiff_t>(ends.size());
  auto words = first_words;
  for (auto& [put_end, get_end] : ends) {
    message.queues.push_back(
        TensorQueue::from_parts(std::move(put_end), std::move(get_end), *words++));
  }
  message.tensors.erase(first_words, message.tensors.end());
  return message;
}

}  // namespace

Packet pack(const Message& message) {
  Packet packet;
  try {
    std::uint32_t flags = 0;
    std::vector<std::byte> body = write_body(message, packet);
    if (body.size() > kMostBody) {
      body = spill(body, packet);
      flags |= kSpilled;
    }
    if (packet.fds.size() > kMaxPacketFds) {
      bundle(packet);
      flags |= kBundled;
    }
    WireWriter writer;
    writer.put(kMagic);
    writer.put(kVersion);
    writer.put(flags);
    writer.append(body);
    packet.bytes = writer.take();
  } catch (...) {
    abandon(packet);
    throw;
  }
  return packet;
}

void abandon(const Packet& packet) noexcept { SegmentPool::instance().abandon(packet.departures); }

Message unpack(std::span<const std::byte> bytes, std::vector<Fd> fds) {
  WireReader reader(bytes);
  check(reader.get<std::uint32_t>() == kMagic, ErrorKind::malformed, "receive",
        "not a message of Shoal");
  const auto version = reader.get<std::uint32_t>();
  check(version == kVersion, ErrorKind::version_mismatch, "receive", "the sender speaks version ",
        version, ", this process version ", kVersion);
  const auto flags = reader.get<std::uint32_t>();
  check((flags & ~(kSpilled | kBundled)) == 0, ErrorKind::malformed, "receive",
        "a packet with unknown flags");
  if (flags & kBundled) fds = unbundle(fds);
  if (!(flags & kSpilled)) return read_body(bytes.last(reader.left()), std::move(fds));
  const auto body = read_spilled(reader, fds);
  return read_body(body, std::move(fds));
}

}  // namespace shoal
