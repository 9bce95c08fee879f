#include "shoal/runtime/device/cpu/cpu_device.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/cpu_cast.h"
#include "shoal/runtime/device/dispatch.h"

namespace shoal {
namespace {

template <class T>
void copy_axes(T* to, const T* from, std::span<const CopyAxis> axes) {
  if (axes.empty()) {
    *to = *from;
    return;
  }
  const auto& [size, to_stride, from_stride] = axes.front();
  if (axes.size() > 1) {
    for (std::int64_t i = 0; i < size; ++i)
      copy_axes(to + i * to_stride, from + i * from_stride, axes.subspan(1));
  } else if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(size) * sizeof(T));
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, size, *from);
  } else {
    for (std::int64_t i = 0; i < size; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

}  // namespace

Device::~Device() = default;

std::string_view CpuDevice::name() const { return "cpu"; }

void* CpuDevice::allocate(std::size_t nbytes) {
  void* data = cache_allocate(nbytes);
  if (data == nullptr) throw_errno(ENOMEM, "aligned_alloc", concat(nbytes, " bytes"));
  return data;
}

void CpuDevice::deallocate(void* data, std::size_t nbytes) noexcept {
  cache_deallocate(data, nbytes);
}

void CpuDevice::copy(void* to, const void* from, std::size_t nbytes) {
  if (nbytes > 0) std::memmove(to, from, nbytes);
}

void CpuDevice::copy_strided(DType dtype, void* to, const void* from,
                             std::span<const CopyAxis> axes) {
  // Bytes are copied as they are, also those that no bool may be.
  visit_dtype(dtype == DType::boolean ? DType::u8 : dtype, [&]<class T>() {
    copy_axes(static_cast<T*>(to), static_cast<const T*>(from), axes);
  });
}

void CpuDevice::cast(DType to_dtype, void* y, DType from_dtype, const void* x, std::int64_t n) {
  cpu_cast(to_dtype, y, from_dtype, x, n);
}

void CpuDevice::fill(DType dtype, void* y, double value, std::int64_t n) {
  if (value == 0 && !std::signbit(value)) {
    if (n > 0) std::memset(y, 0, static_cast<std::size_t>(n) * item_size(dtype));
    return;
  }
  visit_dtype(dtype, [&]<class T>() {
    T element;
    cpu_cast(dtype, &element, DType::f64, &value, 1);
    std::fill_n(static_cast<T*>(y), n, element);
  });
}

}  // namespace shoal
