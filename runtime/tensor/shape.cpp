#include "shoal/runtime/tensor/shape.h"

#include <algorithm>
#include <limits>
#include <ostream>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

void check_rank(std::size_t rank) {
  check(rank <= static_cast<std::size_t>(kMaxRank), ErrorKind::invalid_argument, "Shape",
        "a tensor has at most ", kMaxRank, " axes");
}

}  // namespace

Dims::Dims(std::initializer_list<std::int64_t> sizes)
    : Dims(std::span(sizes.begin(), sizes.size())) {}

Dims::Dims(std::span<const std::int64_t> sizes) {
  check_rank(sizes.size());
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  rank_ = static_cast<int>(sizes.size());
}

Dims Dims::filled(int rank, std::int64_t value) {
  Dims dims;
  for (int axis = 0; axis < rank; ++axis) dims.push_back(value);
  return dims;
}

void Dims::push_back(std::int64_t size) { insert(rank_, size); }

void Dims::insert(int axis, std::int64_t size) {
  check_rank(static_cast<std::size_t>(rank_) + 1);
  for (int i = rank_++; i > axis; --i) (*this)[i] = (*this)[i - 1];
  (*this)[axis] = size;
}

void Dims::erase(int axis) {
  --rank_;
  for (int i = axis; i < rank_; ++i) (*this)[i] = (*this)[i + 1];
}

bool operator==(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '[';
  for (int axis = 0; axis < dims.rank(); ++axis) out << (axis ? ", " : "") << dims[axis];
  return out << ']';
}

std::int64_t numel(const Shape& shape) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
  std::int64_t count = 1;
  bool overflow = false, is_empty = false;
  for (const std::int64_t size : shape) {
    check(size >= 0, ErrorKind::invalid_argument, "Shape", shape, " has a negative size");
    is_empty = is_empty || size == 0;
    // What was counted before an axis of no elements may be more than can be counted.
    if (size > 0) overflow = __builtin_mul_overflow(count, size, &count) || overflow;
  }
  // An axis of no elements makes the whole empty, whatever the others would multiply to.
  if (is_empty) return 0;
  check(!overflow && count <= kMost, ErrorKind::invalid_argument, "Shape", shape,
        " has too many elements to count");
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;  // of the same rank
  std::int64_t stride = 1;
  const bool is_empty = numel(shape) == 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    if (!is_empty) stride *= shape[axis];
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* call) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int i = 1; i <= shorter.rank(); ++i) {
    std::int64_t& size = result[longer.rank() - i];
    const std::int64_t other = shorter[shorter.rank() - i];
    check(size == other || size == 1 || other == 1, ErrorKind::invalid_argument, call, "shapes ", a,
          " and ", b, " do not broadcast");
    if (size == 1) size = other;
  }
  return result;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int added = to.rank() - from.rank();
  if (added < 0) return false;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] != 1 && from[axis] != to[axis + added]) return false;
  return true;
}

int normalize_axis(int axis, int rank, const char* call) {
  check(axis >= -rank && axis < rank, ErrorKind::invalid_argument, call, "axis ", axis,
        " is outside a tensor of ", rank, " axes");
  return axis < 0 ? axis + rank : axis;
}

}  // namespace shoal
