#pragma once

#include "shoal/runtime/device/device.h"

// The processor as a device. Private to this folder.
namespace shoal {

// Its memory. What it computes is in verbs.h, compiled once for each instruction set.
class CpuDevice : public Device {
 public:
  [[nodiscard]] std::string_view name() const final;
  // From the thread's cache (block_cache.h).
  [[nodiscard]] void* allocate(std::size_t nbytes) final;
  void deallocate(void* data, std::size_t nbytes) noexcept final;
  void copy(void* to, const void* from, std::size_t nbytes) final;
  void copy_strided(DType dtype, void* to, const void* from, std::span<const CopyAxis> axes) final;
  void cast(DType to_dtype, void* y, DType from_dtype, const void* x, std::int64_t n) final;
  void fill(DType dtype, void* y, double value, std::int64_t n) final;
};

namespace cpu_baseline {
[[nodiscard]] Device* make_device();
}
// For processors with AVX2 and FMA.
namespace cpu_avx2 {
[[nodiscard]] Device* make_device();
}
// For those with AVX-512 F, CD, BW, DQ and VL besides.
namespace cpu_avx512 {
[[nodiscard]] Device* make_device();
}

}  // namespace shoal
