#include <algorithm>
#include <bitset>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/tensor.h"

// Views of a tensor: another shape, other strides and offset over the same storage.
namespace shoal {

// Views only ever narrow what was checked when the tensor was made, so nothing is checked again.
Tensor Tensor::with(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  check_defined("Tensor");
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = strides;
  view.numel_ = shoal::numel(shape);
  // What comes after the last element may lie outside the storage.
  view.offset_ = view.numel_ == 0 ? 0 : offset;
  return view;
}

Tensor Tensor::slice(int axis, std::int64_t start, std::int64_t end, std::int64_t step) const {
  axis = normalize_axis(axis, rank(), "Tensor::slice");
  check(step >= 1, ErrorKind::invalid_argument, "Tensor::slice", "step ", step, " is not positive");
  const std::int64_t size = shape_[axis];
  const auto clip = [size](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  start = clip(start);
  end = std::max(start, clip(end));
  Shape shape = shape_;
  Strides strides = strides_;
  if (end == start) {
    shape[axis] = 0;
    return with(shape, strides, 0);
  }
  // Written so that a step near the largest number does not overflow.
  shape[axis] = (end - start - 1) / step + 1;
  if (shape[axis] > 1) strides[axis] *= step;
  return with(shape, strides, offset_ + start * strides_[axis]);
}

Tensor Tensor::select(int axis, std::int64_t index) const {
  axis = normalize_axis(axis, rank(), "Tensor::select");
  const std::int64_t size = shape_[axis];
  check(index >= -size && index < size, ErrorKind::invalid_argument, "Tensor::select", "index ",
        index, " is outside axis ", axis, " of shape ", shape_);
  if (index < 0) index += size;
  Shape shape = shape_;
  Strides strides = strides_;
  shape.erase(axis);
  strides.erase(axis);
  return with(shape, strides, offset_ + index * strides_[axis]);
}

Tensor Tensor::transpose(int axis0, int axis1) const {
  axis0 = normalize_axis(axis0, rank(), "Tensor::transpose");
  axis1 = normalize_axis(axis1, rank(), "Tensor::transpose");
  Shape shape = shape_;
  Strides strides = strides_;
  std::swap(shape[axis0], shape[axis1]);
  std::swap(strides[axis0], strides[axis1]);
  return with(shape, strides, offset_);
}

Tensor Tensor::transpose() const {
  Shape shape;
  Strides strides;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    shape.push_back(shape_[axis]);
    strides.push_back(strides_[axis]);
  }
  return with(shape, strides, offset_);
}

Tensor Tensor::permute(std::initializer_list<int> order) const {
  check(order.size() == static_cast<std::size_t>(rank()), ErrorKind::invalid_argument,
        "Tensor::permute", order.size(), " axes given for shape ", shape_);
  Shape shape;
  Strides strides;
  std::bitset<kMaxRank> seen;
  for (const int wanted : order) {
    const int axis = normalize_axis(wanted, rank(), "Tensor::permute");
    check(!seen.test(static_cast<std::size_t>(axis)), ErrorKind::invalid_argument,
          "Tensor::permute", "axis ", axis, " is given twice");
    seen.set(static_cast<std::size_t>(axis));
    shape.push_back(shape_[axis]);
    strides.push_back(strides_[axis]);
  }
  return with(shape, strides, offset_);
}

Tensor Tensor::expand(const Shape& shape) const {
  const int added = shape.rank() - rank();
  check(added >= 0, ErrorKind::invalid_argument, "Tensor::expand", shape_, " has more axes than ",
        shape);
  Strides strides = Strides::filled(shape.rank(), 0);
  for (int axis = 0; axis < rank(); ++axis) {
    check(shape_[axis] == shape[axis + added] || shape_[axis] == 1, ErrorKind::invalid_argument,
          "Tensor::expand", shape_, " does not expand to ", shape);
    if (shape_[axis] == shape[axis + added]) strides[axis + added] = strides_[axis];
  }
  return with(shape, strides, offset_);
}

Shape Tensor::resolve(const Shape& shape, const char* call) const {
  Shape resolved = shape;
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (unknown != shape.end()) {
    const int axis = static_cast<int>(unknown - shape.begin());
    resolved[axis] = 1;
    check(std::find(unknown + 1, shape.end(), -1) == shape.end(), ErrorKind::invalid_argument, call,
          shape, " has more than one -1");
    const std::int64_t known = shoal::numel(resolved);
    check(known > 0 && numel_ % known == 0, ErrorKind::invalid_argument, call, shape_,
          " cannot be laid out as ", shape);
    resolved[axis] = numel_ / known;
  }
  check(shoal::numel(resolved) == numel_, ErrorKind::invalid_argument, call, shape_, " has ",
        numel_, " elements, ", shape, " another number");
  return resolved;
}

// The strides that show the same elements in the same order under `shape`; empty if only a copy
// can. Runs of axes that lie behind each other in memory are merged, then cut anew.
std::optional<Strides> Tensor::strides_for(const Shape& shape) const {
  if (is_contiguous()) return contiguous_strides(shape);
  Strides strides = Strides::filled(shape.rank(), 1);
  int to = shape.rank() - 1;
  for (int from = rank() - 1; from >= 0;) {
    std::int64_t run = shape_[from];
    const std::int64_t dense = strides_[from];
    for (--from; from >= 0 && (shape_[from] == 1 || strides_[from] == run * dense); --from)
      run *= shape_[from];
    std::int64_t covered = 1;
    while (to >= 0 && (covered < run || shape[to] == 1)) {
      strides[to] = covered * dense;
      covered *= shape[to--];
    }
    if (covered != run) return std::nullopt;
  }
  return strides;
}

Tensor Tensor::reshape(const Shape& shape) const {
  const Shape resolved = resolve(shape, "Tensor::reshape");
  if (const auto strides = strides_for(resolved)) return with(resolved, *strides, offset_);
  return clone().with(resolved, contiguous_strides(resolved), 0);
}

Tensor Tensor::view(const Shape& shape) const {
  const Shape resolved = resolve(shape, "Tensor::view");
  const auto strides = strides_for(resolved);
  check(strides.has_value(), ErrorKind::invalid_argument, "Tensor::view", "strides ", strides_,
        " of shape ", shape_, " cannot show shape ", shape, "; use reshape, which may copy");
  return with(resolved, *strides, offset_);
}

}  // namespace shoal
