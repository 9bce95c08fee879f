#include "shoal/runtime/ipc/message.h"

#include <unordered_map>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/ipc/storage_handle.h"
#include "shoal/runtime/ipc/wire.h"
#include "shoal/runtime/shm/process_token.h"

namespace shoal {
namespace {

constexpr std::uint32_t kMessageMagic = 0x4c41'4f53;  // "SOAL"
constexpr std::uint32_t kMessageVersion = 1;

StorageHandle describe(const Storage& storage, EncodedMessage& out) {
  StorageHandle handle{.nbytes = storage.nbytes()};
  const Segment* segment = storage.segment();
  if (segment == nullptr) return handle;
  handle.strategy = segment->strategy();
  handle.segment = segment->id();
  if (handle.strategy == SharingStrategy::file_descriptor) {
    handle.fd = static_cast<std::uint32_t>(out.fds.size());
    out.fds.push_back(segment->fd());
  }
  return handle;
}

// A descriptor named by the message; each may be taken once.
Fd take_fd(std::vector<Fd>& fds, std::uint32_t index) {
  check(index < fds.size() && static_cast<bool>(fds[index]), ErrorKind::malformed, "decode",
        "descriptor ", index, " of ", fds.size(), " is missing");
  return std::move(fds[index]);
}

}  // namespace

EncodedMessage encode(const Message& message) {
  EncodedMessage out;
  std::unordered_map<const Storage*, std::uint32_t> numbers;
  std::vector<std::shared_ptr<Storage>> storages;
  std::vector<TensorHandle> tensors;
  for (const Tensor& tensor : message.tensors) {
    check(tensor.defined(), ErrorKind::invalid_argument, "send", "a tensor is undefined");
    tensor.share_memory();
    const auto [at, added] =
        numbers.try_emplace(tensor.storage().get(), static_cast<std::uint32_t>(storages.size()));
    if (added) storages.push_back(tensor.storage());
    tensors.push_back({.storage = at->second,
                       .dtype = tensor.dtype(),
                       .shape = tensor.shape(),
                       .strides = tensor.strides(),
                       .offset = tensor.offset()});
  }
  for (const Fd& fd : message.fds) out.fds.push_back(fd.get());

  WireWriter writer;
  writer.put(kMessageMagic);
  writer.put(kMessageVersion);
  writer.put_text(message.tag);
  writer.put_bytes(message.bytes);
  writer.put(static_cast<std::uint32_t>(message.fds.size()));
  writer.put(static_cast<std::uint32_t>(storages.size()));
  writer.put(static_cast<std::uint32_t>(tensors.size()));
  try {
    for (const auto& storage : storages) {
      remember_storage(storage);
      write(writer, describe(*storage, out));
      if (storage->segment() == nullptr ||
          storage->segment()->strategy() != SharingStrategy::file_system)
        continue;
      out.held.reserve(storages.size());
      storage->segment()->hold_for_message();
      out.held.push_back(storage);
    }
    for (const TensorHandle& tensor : tensors) write(writer, tensor);
    // The sender's token and its lock travel along, to vouch for the holds.
    writer.put<TokenId>(out.held.empty() ? 0 : my_token());
    if (!out.held.empty()) out.fds.push_back(my_token_fd());
  } catch (...) {
    abandon(out);
    throw;
  }
  out.body = writer.take();
  return out;
}

void abandon(const EncodedMessage& encoded) noexcept {
  for (const auto& storage : encoded.held)
    storage->segment()->release_message_hold(my_token_if_any());
}

Message decode(std::span<const std::byte> body, std::vector<Fd> fds) {
  WireReader reader(body);
  check(reader.get<std::uint32_t>() == kMessageMagic, ErrorKind::malformed, "receive",
        "not a message of Shoal");
  const auto version = reader.get<std::uint32_t>();
  check(version == kMessageVersion, ErrorKind::version_mismatch, "receive",
        "the sender speaks version ", version, ", this process version ", kMessageVersion);
  Message message;
  message.tag = reader.get_text();
  const auto bytes = reader.get_bytes();
  message.bytes.assign(bytes.begin(), bytes.end());
  const auto fd_count = reader.get<std::uint32_t>();
  const auto storage_count = reader.get<std::uint32_t>();
  const auto tensor_count = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < fd_count; ++i) message.fds.push_back(take_fd(fds, i));

  // Everything is parsed before anything is opened, since the token stands last.
  std::vector<StorageHandle> handles;
  for (std::uint32_t i = 0; i < storage_count; ++i) handles.push_back(read_storage_handle(reader));
  std::vector<TensorHandle> tensors;
  for (std::uint32_t i = 0; i < tensor_count; ++i) tensors.push_back(read_tensor_handle(reader));
  const auto sender = reader.get<TokenId>();
  reader.expect_end();

  // `fds` still holds the sender's lock; it is let go at the end, when the holds are taken over.
  std::vector<std::shared_ptr<Storage>> storages;
  for (const StorageHandle& handle : handles) {
    Fd memory;
    if (handle.fd != StorageHandle::kNoFd) memory = take_fd(fds, handle.fd);
    storages.push_back(open_storage(handle, std::move(memory), sender));
  }
  for (const TensorHandle& tensor : tensors) {
    check(tensor.storage < storages.size(), ErrorKind::malformed, "receive",
          "a tensor over storage ", tensor.storage, " of ", storages.size());
    message.tensors.push_back(Tensor::over(storages[tensor.storage], tensor.dtype, tensor.shape,
                                           tensor.strides, tensor.offset));
  }
  return message;
}

}  // namespace shoal
