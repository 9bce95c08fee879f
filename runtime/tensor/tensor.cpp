#include "shoal/runtime/tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/stream_copy.h"
#include "shoal/runtime/tensor/random.h"

namespace shoal {
namespace {

std::size_t bytes_for(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(numel(shape)) * item_size(dtype);
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  // As over(), which would check what is right by construction.
  Tensor tensor;
  tensor.numel_ = shoal::numel(shape);
  tensor.dtype_ = dtype;
  tensor.storage_ = Storage::allocate(tensor.nbytes());
  tensor.shape_ = shape;
  tensor.strides_ = contiguous_strides(shape);
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }

Tensor Tensor::ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  tensor.fill_(value);
  return tensor;
}

Tensor Tensor::arange(std::int64_t start, std::int64_t end, DType dtype) {
  std::int64_t count = 0;
  check(end <= start || !__builtin_sub_overflow(end, start, &count), ErrorKind::invalid_argument,
        "Tensor::arange", "too many numbers from ", start, " to ", end);
  const Tensor counted = empty({count}, DType::i64);
  std::int64_t value = start;
  for (std::int64_t& element : counted.span<std::int64_t>()) element = value++;
  return counted.to(dtype);
}

Tensor Tensor::uniform(const Shape& shape, double low, double high, Generator& generator,
                       DType dtype) {
  check(dtype == DType::f32 || dtype == DType::f64, ErrorKind::invalid_argument, "Tensor::uniform",
        "draws f32 and f64, not ", to_string(dtype));
  const Tensor drawn = empty(shape, DType::f64);
  for (double& element : drawn.span<double>()) element = generator.uniform(low, high);
  Tensor result = drawn.to(dtype);
  if (dtype == DType::f32 && low < high) {
    // Rounding may reach the end, which is not in the range.
    const auto end = static_cast<float>(high);
    const float most =
        end < high ? end : std::nextafter(end, -std::numeric_limits<float>::infinity());
    for (float& element : result.span<float>()) element = std::min(element, most);
  }
  return result;
}

Tensor Tensor::normal(const Shape& shape, Generator& generator, DType dtype) {
  check(dtype == DType::f32 || dtype == DType::f64, ErrorKind::invalid_argument, "Tensor::normal",
        "draws f32 and f64, not ", to_string(dtype));
  const Tensor drawn = empty(shape, DType::f64);
  for (double& element : drawn.span<double>()) element = generator.normal();
  return drawn.to(dtype);
}

Tensor Tensor::empty_shared(const Shape& shape, DType dtype, SharingStrategy strategy) {
  return over(Storage::allocate_shared(bytes_for(shape, dtype), strategy, Contents::undefined),
              dtype, shape, contiguous_strides(shape));
}

Tensor Tensor::full_shared(const Shape& shape, double value, DType dtype,
                           SharingStrategy strategy) {
  Tensor tensor = empty_shared(shape, dtype, strategy);
  tensor.fill_(value);
  return tensor;
}

Tensor Tensor::zeros_shared(const Shape& shape, DType dtype, SharingStrategy strategy) {
  return over(Storage::allocate_shared(bytes_for(shape, dtype), strategy), dtype, shape,
              contiguous_strides(shape));
}

Tensor Tensor::from_bytes(const void* data, std::size_t count, const Shape& shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  tensor.copy_bytes(data, count);
  return tensor;
}

void Tensor::copy_bytes(const void* data, std::size_t count) const {
  check(static_cast<std::int64_t>(count) == numel_, ErrorKind::invalid_argument, "Tensor::from",
        count, " values do not fill shape ", shape_);
  if (is_shared() && nbytes() >= kStreamFrom) {
    stream_copy(data_ptr(), data, nbytes());
  } else {
    device().copy(data_ptr(), data, nbytes());
  }
}

Tensor Tensor::over(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape,
                    const Strides& strides, std::int64_t offset) {
  constexpr const char* kCall = "Tensor::over";
  check(static_cast<int>(dtype) < kDTypeCount, ErrorKind::invalid_argument, kCall, "no such dtype");
  check(storage != nullptr && shape.rank() == strides.rank() && offset >= 0,
        ErrorKind::invalid_argument, kCall, "shape ", shape, ", strides ", strides, ", offset ",
        offset, " do not describe a tensor");
  Tensor tensor;
  tensor.numel_ = shoal::numel(shape);
  // The index of the last element, counted with care since strides may come from outside.
  std::int64_t last = offset;
  bool overflow = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    check(strides[axis] >= 0, ErrorKind::invalid_argument, kCall, "negative stride in ", strides);
    std::int64_t reach = 0;
    if (tensor.numel_ > 0) {
      overflow |= __builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
  }
  const auto held = static_cast<std::int64_t>(storage->nbytes() / item_size(dtype));
  check(!overflow && (tensor.numel_ == 0 ? offset <= held : last < held),
        ErrorKind::invalid_argument, kCall, "shape ", shape, " with strides ", strides,
        " and offset ", offset, " reaches outside a storage of ", storage->nbytes(), " bytes");
  tensor.storage_ = std::move(storage);
  tensor.shape_ = shape;
  // Nothing bounds the strides of no elements, and views multiply with them.
  tensor.strides_ = tensor.numel_ == 0 ? contiguous_strides(shape) : strides;
  tensor.offset_ = tensor.numel_ == 0 ? 0 : offset;
  tensor.dtype_ = dtype;
  return tensor;
}

std::int64_t Tensor::size(int axis) const {
  return shape_[normalize_axis(axis, rank(), "Tensor::size")];
}

bool Tensor::is_contiguous() const {
  if (numel_ <= 1) return true;
  std::int64_t expected = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (shape_[axis] == 1) continue;
    if (strides_[axis] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

Tensor Tensor::contiguous() const {
  check_defined("Tensor::contiguous");
  return is_contiguous() ? *this : clone();
}

Tensor Tensor::clone() const {
  check_defined("Tensor::clone");
  Tensor copy = empty(shape_, dtype_);
  copy.copy_(*this);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  check_defined("Tensor::to");
  if (dtype == dtype_) return *this;
  Tensor converted = empty(shape_, dtype);
  converted.copy_(*this);
  return converted;
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  check_defined("Tensor::copy_");
  check_writable("Tensor::copy_");
  source.check_defined("Tensor::copy_");
  check(broadcasts_to(source.shape_, shape_), ErrorKind::invalid_argument, "Tensor::copy_",
        source.shape_, " does not broadcast to ", shape_);
  const Tensor from = source.expand(shape_);
  if (numel_ == 0) return *this;
  storage_->count_write();
  const bool dense_both = is_contiguous() && from.is_contiguous();
  if (dense_both && from.dtype_ == dtype_) {
    device().copy(data_ptr(), from.data_ptr(), nbytes());
    return *this;
  }
  if (may_overlap(*this, from)) return copy_(from.clone());
  if (from.dtype_ != dtype_) {
    const Tensor dense = from.contiguous();
    if (is_contiguous()) {
      device().cast(dtype_, data_ptr(), dense.dtype_, dense.data_ptr(), numel_);
      return *this;
    }
    return copy_(dense.to(dtype_));
  }
  std::array<CopyAxis, kMaxRank> axes;
  for (int axis = 0; axis < rank(); ++axis)
    axes[static_cast<std::size_t>(axis)] = {shape_[axis], strides_[axis], from.strides_[axis]};
  device().copy_strided(dtype_, data_ptr(), from.data_ptr(),
                        std::span(axes.data(), static_cast<std::size_t>(rank())));
  return *this;
}

const Tensor& Tensor::fill_(double value) const {
  check_defined("Tensor::fill_");
  check_writable("Tensor::fill_");
  storage_->count_write();
  if (is_contiguous()) {
    device().fill(dtype_, data_ptr(), value, numel_);
    return *this;
  }
  return copy_(full({}, value, dtype_));
}

const Tensor& Tensor::share_memory(SharingStrategy strategy) const {
  check_defined("Tensor::share_memory");
  storage_->share_memory(strategy);
  return *this;
}

Tensor Tensor::read_only(SharingStrategy strategy) const {
  share_memory(strategy);
  Tensor view = *this;
  if (storage_->block() != nullptr && !storage_->is_read_only())
    view.storage_ = Storage::over(storage_->block(), true);
  return view;
}

std::int64_t Tensor::offset_of(std::span<const std::int64_t> indices) const {
  check(indices.size() == static_cast<std::size_t>(rank()), ErrorKind::invalid_argument,
        "Tensor::at", indices.size(), " indices for shape ", shape_);
  std::int64_t at = 0;
  for (int axis = 0; axis < rank(); ++axis) {
    const std::int64_t index = indices[static_cast<std::size_t>(axis)];
    check(index >= 0 && index < shape_[axis], ErrorKind::invalid_argument, "Tensor::at", "index ",
          index, " is outside axis ", axis, " of shape ", shape_);
    at += index * strides_[axis];
  }
  return at;
}

void Tensor::throw_undefined(const char* call) {
  throw Error(
      {.kind = ErrorKind::invalid_argument, .call = call, .reason = "the tensor is undefined"});
}

void Tensor::check_writable(const char* call) const {
  check(!storage_->is_read_only(), ErrorKind::invalid_argument, call,
        "the tensor is read-only; write to a clone(), or where it was shared from");
}

void Tensor::check_dtype(DType wanted, const char* call) const {
  check_defined(call);
  check(dtype_ == wanted, ErrorKind::invalid_argument, call, "elements are ", to_string(dtype_),
        ", asked for as ", to_string(wanted));
}

void Tensor::check_contiguous(const char* call) const {
  check(is_contiguous(), ErrorKind::invalid_argument, call, "the tensor of shape ", shape_,
        " and strides ", strides_, " is not contiguous; call contiguous() first");
}

void Tensor::check_single(const char* call) const {
  check(numel_ == 1, ErrorKind::invalid_argument, call, "a tensor of shape ", shape_,
        " does not have exactly one element");
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  // A read-only view and what it was made from are two storages over one block.
  const auto& block = a.storage()->block();
  if (a.storage() != b.storage() && (block == nullptr || block != b.storage()->block()))
    return false;
  // The bytes from the first element to the end of the last.
  const auto extent = [](const Tensor& t) {
    std::int64_t last = t.offset();
    for (int axis = 0; axis < t.rank(); ++axis) last += (t.shape()[axis] - 1) * t.strides()[axis];
    const auto item = static_cast<std::int64_t>(item_size(t.dtype()));
    return std::pair(t.offset() * item, (last + 1) * item);
  };
  const auto [a_begin, a_end] = extent(a);
  const auto [b_begin, b_end] = extent(b);
  return a_begin < b_end && b_begin < a_end;
}

bool equal(const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), ErrorKind::invalid_argument, "equal", "a tensor is undefined");
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  if (!is_floating_point(a.dtype())) {
    const auto* p = static_cast<const std::byte*>(x.data_ptr());
    return std::equal(p, p + x.nbytes(), static_cast<const std::byte*>(y.data_ptr()));
  }
  // As f64 every dtype's values are exact, 0 equals -0 and NaN equals nothing.
  const Tensor p = x.to(DType::f64), q = y.to(DType::f64);
  return std::ranges::equal(p.span<double>(), q.span<double>());
}

}  // namespace shoal
