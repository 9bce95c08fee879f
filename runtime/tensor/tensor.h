#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shoal/runtime/device/dtype.h"
#include "shoal/runtime/tensor/shape.h"
#include "shoal/runtime/tensor/storage.h"

namespace shoal {

class Generator;

// A box of elements: dtype, shape, strides and offset over a Storage.
//
// A value: copying a Tensor copies the description and shares the bytes, as a view does; clone()
// copies bytes. A const Tensor has a fixed description, its bytes may still be written. A default
// Tensor is undefined: it has no storage and no elements, and calls that need either refuse it.
//
// Many threads may read one tensor; a write needs the caller's own arrangement, except where a
// training mode declares otherwise. Axes may be negative: -1 is the last.
// Calls that are asked the impossible throw Error(invalid_argument).
class Tensor {
 public:
  Tensor() = default;

  // --- Making tensors. Private memory of the cpu; `*_shared` makes them in shared memory at once.
  [[nodiscard]] static Tensor empty(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] static Tensor ones(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  // start, start + 1, …, below end.
  [[nodiscard]] static Tensor arange(std::int64_t start, std::int64_t end,
                                     DType dtype = DType::i64);
  // Uniform in [low, high), f32 or f64.
  [[nodiscard]] static Tensor uniform(const Shape& shape, double low, double high,
                                      Generator& generator, DType dtype = DType::f32);
  // From the normal distribution of mean 0 and deviation 1, f32 or f64.
  [[nodiscard]] static Tensor normal(const Shape& shape, Generator& generator,
                                     DType dtype = DType::f32);
  // Those above in shared memory at once, which saves the copy that share_memory makes. Throw as
  // SegmentPool::allocate does.
  [[nodiscard]] static Tensor empty_shared(const Shape& shape, DType dtype = DType::f32,
                                           SharingStrategy strategy = get_sharing_strategy());
  [[nodiscard]] static Tensor zeros_shared(const Shape& shape, DType dtype = DType::f32,
                                           SharingStrategy strategy = get_sharing_strategy());
  [[nodiscard]] static Tensor full_shared(const Shape& shape, double value,
                                          DType dtype = DType::f32,
                                          SharingStrategy strategy = get_sharing_strategy());
  template <class T>
  [[nodiscard]] static Tensor from_shared(std::span<const T> values, const Shape& shape,
                                          SharingStrategy strategy = get_sharing_strategy()) {
    Tensor tensor = empty_shared(shape, dtype_of<T>, strategy);
    tensor.copy_bytes(values.data(), values.size());
    return tensor;
  }
  // A copy of `values`, which fill `shape` in row-major order.
  template <class T>
  [[nodiscard]] static Tensor from(std::span<const T> values, const Shape& shape) {
    return from_bytes(values.data(), values.size(), shape, dtype_of<T>);
  }
  template <class T>
  [[nodiscard]] static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  template <class T>
  [[nodiscard]] static Tensor from(std::initializer_list<T> values) {
    return from(std::span<const T>(values.begin(), values.size()),
                {static_cast<std::int64_t>(values.size())});
  }
  // A view described from outside, for those who receive descriptions. Every element must lie
  // within the storage.
  [[nodiscard]] static Tensor over(std::shared_ptr<Storage> storage, DType dtype,
                                   const Shape& shape, const Strides& strides,
                                   std::int64_t offset = 0);

  // --- What it is.
  [[nodiscard]] bool defined() const { return storage_ != nullptr; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Strides& strides() const { return strides_; }
  [[nodiscard]] int rank() const { return shape_.rank(); }
  [[nodiscard]] std::int64_t size(int axis) const;
  [[nodiscard]] std::int64_t numel() const { return numel_; }
  // Bytes of the elements, laid side by side.
  [[nodiscard]] std::size_t nbytes() const {
    return static_cast<std::size_t>(numel_) * item_size(dtype_);
  }
  // Of the first element within the storage, in elements.
  [[nodiscard]] std::int64_t offset() const { return offset_; }
  [[nodiscard]] bool is_contiguous() const;
  [[nodiscard]] Device& device() const {
    check_defined("Tensor::device");
    return storage_->device();
  }
  [[nodiscard]] const std::shared_ptr<Storage>& storage() const { return storage_; }

  // --- Its elements.
  [[nodiscard]] void* data_ptr() const {
    check_defined("Tensor::data_ptr");
    return storage_->data() + static_cast<std::size_t>(offset_) * item_size(dtype_);
  }
  // The first element; T must be the C++ type of dtype(). Good until the storage is shared or gone.
  template <class T>
  [[nodiscard]] T* data() const {
    check_dtype(dtype_of<T>, "Tensor::data");
    return static_cast<T*>(data_ptr());
  }
  // All elements of a contiguous tensor.
  template <class T>
  [[nodiscard]] std::span<T> span() const {
    check_contiguous("Tensor::span");
    return {data<T>(), static_cast<std::size_t>(numel_)};
  }
  // The element at these indices, one per axis; checked.
  template <class T, class... Index>
  [[nodiscard]] T& at(Index... index) const {
    const std::array<std::int64_t, sizeof...(index)> indices{static_cast<std::int64_t>(index)...};
    return data<T>()[offset_of(indices)];
  }
  // The only element of a tensor that has one.
  template <class T>
  [[nodiscard]] T item() const {
    check_single("Tensor::item");
    return *data<T>();
  }

  // --- Views: the same bytes, seen otherwise.
  // start, start + step, …, below end along `axis`. Bounds are clipped and may be negative, as in
  // NumPy; step is at least 1.
  [[nodiscard]] Tensor slice(int axis, std::int64_t start, std::int64_t end,
                             std::int64_t step = 1) const;
  // One index along `axis`, which disappears.
  [[nodiscard]] Tensor select(int axis, std::int64_t index) const;
  [[nodiscard]] Tensor transpose(int axis0, int axis1) const;
  // All axes of a matrix, or of anything, in reverse.
  [[nodiscard]] Tensor transpose() const;
  // Axis i of the result is axis order[i] of this tensor.
  [[nodiscard]] Tensor permute(std::initializer_list<int> order) const;
  // Repeats axes of size 1, and new axes in front, without copying.
  [[nodiscard]] Tensor expand(const Shape& shape) const;
  // The same elements in row-major order under another shape; one size may be -1, to be computed.
  // A view where the strides allow it, otherwise a copy.
  [[nodiscard]] Tensor reshape(const Shape& shape) const;
  // As reshape, but Error(invalid_argument) where it would copy.
  [[nodiscard]] Tensor view(const Shape& shape) const;
  [[nodiscard]] Tensor flatten() const { return reshape({-1}); }

  // --- Copies.
  // Itself if contiguous, otherwise a contiguous copy.
  [[nodiscard]] Tensor contiguous() const;
  // A contiguous copy in private memory.
  [[nodiscard]] Tensor clone() const;
  // Itself if it has this dtype already, otherwise converted;
  // floats are rounded or truncated and saturated, integers wrap, bool is "not zero".
  [[nodiscard]] Tensor to(DType dtype) const;

  // --- Writing in place. Each returns *this.
  // Takes the elements of `source`, broadcast to this shape and converted to this dtype. The two
  // may overlap: the elements are those from before the call.
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(double value) const;
  const Tensor& zero_() const { return fill_(0); }

  // --- Sharing.
  // Moves the storage into shared memory, in place: every view of it follows. Pointers from data()
  // that were taken before are dead. Does nothing if the storage is shared already.
  const Tensor& share_memory(SharingStrategy strategy = get_sharing_strategy()) const;
  [[nodiscard]] bool is_shared() const { return storage_ != nullptr && storage_->is_shared(); }
  // A view of the same bytes that nobody may write through, here or where it is sent: calls that
  // write refuse it, and a write through its data raises SIGSEGV. Moves a private storage into
  // shared memory. What the owner writes to the original stays visible.
  [[nodiscard]] Tensor read_only(SharingStrategy strategy = get_sharing_strategy()) const;
  [[nodiscard]] bool is_read_only() const {
    return storage_ != nullptr && storage_->is_read_only();
  }

 private:
  void copy_bytes(const void* data, std::size_t count) const;
  void check_writable(const char* call) const;
  [[nodiscard]] static Tensor from_bytes(const void* data, std::size_t count, const Shape& shape,
                                         DType dtype);
  [[nodiscard]] Tensor with(const Shape& shape, const Strides& strides, std::int64_t offset) const;
  [[nodiscard]] std::optional<Strides> strides_for(const Shape& shape) const;
  [[nodiscard]] Shape resolve(const Shape& shape, const char* call) const;
  [[nodiscard]] std::int64_t offset_of(std::span<const std::int64_t> indices) const;
  void check_defined(const char* call) const {
    if (storage_ == nullptr) [[unlikely]]
      throw_undefined(call);
  }
  [[noreturn]] static void throw_undefined(const char* call);
  void check_dtype(DType wanted, const char* call) const;
  void check_contiguous(const char* call) const;
  void check_single(const char* call) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;
  std::int64_t numel_ = 0;
  DType dtype_ = DType::f32;
};

// A line with dtype and shape, then the elements as nested lists; long axes are abridged.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// Whether writing one could change the other. Errs on the side of true, for interleaved views.
[[nodiscard]] bool may_overlap(const Tensor& a, const Tensor& b);

// Same dtype, shape and elements. NaN differs from everything, as in NumPy's array_equal.
[[nodiscard]] bool equal(const Tensor& a, const Tensor& b);

}  // namespace shoal
