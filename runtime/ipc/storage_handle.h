#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/segment_header.h"
#include "shoal/runtime/tensor/storage.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

class WireReader;
class WireWriter;

// What stands for a shared storage in a message: small, and good in any process of this machine.
// The bytes themselves never travel.
struct StorageHandle {
  static constexpr std::uint32_t kNoFd = UINT32_MAX;

  SharingStrategy strategy = SharingStrategy::file_descriptor;
  SegmentId segment{};  // zero for a storage of no bytes
  std::uint64_t nbytes = 0;
  std::uint32_t fd = kNoFd;  // file_descriptor: which of the message's descriptors
};

// The storages of this process by segment, so that one that arrives again, or comes home, is the
// same Storage and aliases as before. Safe from many threads, and across fork.
//
// Makes `handle` into a Storage. `memory` is the handle's descriptor (file_descriptor); `sender`
// the token under which the message holds the segment (file_system), which is taken over or given
// back.
[[nodiscard]] std::shared_ptr<Storage> open_storage(const StorageHandle& handle, Fd memory,
                                                    TokenId sender);

// Lets open_storage find a storage that was shared here.
void remember_storage(const std::shared_ptr<Storage>& storage);

// A view over the storage numbered `storage` of the same message.
struct TensorHandle {
  std::uint32_t storage = 0;
  DType dtype = DType::f32;
  Shape shape{};
  Strides strides{};
  std::int64_t offset = 0;
};

void write(WireWriter& out, const StorageHandle& handle);
void write(WireWriter& out, const TensorHandle& handle);
// Throw Error(malformed) for what cannot be.
[[nodiscard]] StorageHandle read_storage_handle(WireReader& in);
[[nodiscard]] TensorHandle read_tensor_handle(WireReader& in);

}  // namespace shoal
