#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/tensor/storage.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

class WireReader;
class WireWriter;

// What stands for shared memory in a message: small, and good in any process of this machine. The
// bytes themselves never travel.

// A segment, and the flight (flight.h) under which the message holds blocks of it.
struct SegmentHandle {
  SegmentId id{};
  FlightKind kind = FlightKind::apart;
  Slot flight = 0;
  std::uint32_t fd = 0;  // which of the message's descriptors is the flight's
};

// A block of one of the message's segments; or no bytes at all.
struct StorageHandle {
  static constexpr std::uint32_t kNoSegment = UINT32_MAX;

  std::uint32_t segment = kNoSegment;
  BlockHandle block{};
  bool read_only = false;
};

// A view over one of the message's storages.
struct TensorHandle {
  std::uint32_t storage = 0;
  DType dtype = DType::f32;
  Shape shape{};
  Strides strides{};
  std::int64_t offset = 0;
};

void write(WireWriter& out, const SegmentHandle& handle);
void write(WireWriter& out, const StorageHandle& handle);
void write(WireWriter& out, const TensorHandle& handle);
// Throw Error(malformed) for what cannot be.
[[nodiscard]] SegmentHandle read_segment_handle(WireReader& in);
[[nodiscard]] StorageHandle read_storage_handle(WireReader& in);
[[nodiscard]] TensorHandle read_tensor_handle(WireReader& in);

// The storages of this process by block, so that one that arrives again, or comes home, is the same
// Storage and aliases as before. Safe from many threads, and across fork.
//
// Takes over what a message holds; each handle's segment is one of `arrivals`, to which its block
// has been announced.
[[nodiscard]] std::vector<std::shared_ptr<Storage>> open_storages(
    std::span<const StorageHandle> handles, std::span<const std::unique_ptr<Arrival>> arrivals);
// Lets open_storages find storages that were shared here.
void remember_storages(std::span<const std::shared_ptr<Storage>> storages);

}  // namespace shoal
