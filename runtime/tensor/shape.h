#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

namespace shoal {

// No tensor has more axes than this.
inline constexpr int kMaxRank = 8;

// A short list of numbers, one per axis, outermost first. It never allocates.
// Throws Error(invalid_argument) when it would grow past kMaxRank.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> sizes);
  explicit Dims(std::span<const std::int64_t> sizes);
  // `rank` times `value`.
  [[nodiscard]] static Dims filled(int rank, std::int64_t value);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](int axis) const { return sizes_[index(axis)]; }
  [[nodiscard]] std::int64_t& operator[](int axis) { return sizes_[index(axis)]; }
  [[nodiscard]] const std::int64_t* begin() const { return sizes_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return sizes_.data() + rank_; }

  void push_back(std::int64_t size);
  void insert(int axis, std::int64_t size);
  void erase(int axis);

  friend bool operator==(const Dims& a, const Dims& b);
  // "[2, 3]"
  friend std::ostream& operator<<(std::ostream& out, const Dims& dims);

 private:
  [[nodiscard]] static std::size_t index(int axis) { return static_cast<std::size_t>(axis); }

  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

// Sizes, each at least 0. An empty Shape is that of a scalar.
using Shape = Dims;
// Distances between neighbours along each axis, in elements; 0 repeats one element.
using Strides = Dims;

// How many elements. Throws Error(invalid_argument) for a negative size or if the product, times
// the largest element, does not fit 63 bits.
[[nodiscard]] std::int64_t numel(const Shape& shape);

// Row-major: the last axis is the densest. All 1 where there are no elements to lay out, since the
// product of the other sizes need not fit.
[[nodiscard]] Strides contiguous_strides(const Shape& shape);

// The shape both operands are repeated to, by NumPy's rule: aligned at the last axis, sizes equal
// or one of them 1. Throws Error(invalid_argument) naming `call` and both shapes.
[[nodiscard]] Shape broadcast_shapes(const Shape& a, const Shape& b, const char* call);

// Whether a tensor of shape `from` can be repeated to shape `to`.
[[nodiscard]] bool broadcasts_to(const Shape& from, const Shape& to);

// Counts a negative axis from the end. Throws Error(invalid_argument) outside [-rank, rank).
[[nodiscard]] int normalize_axis(int axis, int rank, const char* call);

}  // namespace shoal
