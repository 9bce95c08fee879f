#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "support/tensors.h"

namespace shoal {
namespace {

using test::for_each_index;
using test::Index;
using test::values_of;

using Positions = std::vector<std::int64_t>;

std::int64_t flat(const Shape& shape, const Index& index) {
  std::int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    at = at * shape[axis] + index[static_cast<std::size_t>(axis)];
  return at;
}

// What a view is, without strides: its shape, and for each element in row-major order where in the
// base it lies. Every step enumerates the result's indices and says which source index each shows.
struct Model {
  Shape shape;
  Positions where;

  template <class F>
  [[nodiscard]] Model show(const Shape& result, F&& source_of) const {
    Model view{result, {}};
    for_each_index(result, [&](const Index& index) {
      view.where.push_back(where[static_cast<std::size_t>(flat(shape, source_of(index)))]);
    });
    return view;
  }

  // The only strides that could show `where` under `result`, if any can.
  [[nodiscard]] bool fits_strides(const Shape& result) const {
    if (where.empty()) return true;
    Positions stride;
    for (int axis = 0; axis < result.rank(); ++axis) {
      Index one(static_cast<std::size_t>(result.rank()), 0);
      one[static_cast<std::size_t>(axis)] = result[axis] > 1 ? 1 : 0;
      stride.push_back(where[static_cast<std::size_t>(flat(result, one))] - where[0]);
    }
    bool fits = true;
    for_each_index(result, [&](const Index& index) {
      const auto wanted = std::inner_product(index.begin(), index.end(), stride.begin(), where[0]);
      fits = fits && where[static_cast<std::size_t>(flat(result, index))] == wanted;
    });
    return fits;
  }
};

struct Viewed {
  Tensor base;  // i64, element i is i
  Tensor tensor;
  Model model;

  explicit Viewed(const Shape& shape)
      : base(Tensor::arange(0, numel(shape))), tensor(base.view(shape)), model{shape, {}} {
    model.where.resize(static_cast<std::size_t>(base.numel()));
    std::iota(model.where.begin(), model.where.end(), 0);
  }
  [[nodiscard]] bool is_view() const { return tensor.storage() == base.storage(); }
};

std::int64_t random(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(100, rc::gen::inRange(low, high + 1));
}

Shape random_shape(int most_axes) {
  Shape shape;
  // Mostly small; now and then an axis of size 0.
  for (auto left = random(0, most_axes); left > 0; --left)
    shape.push_back(
        *rc::gen::weightedElement<std::int64_t>({{1, 0}, {5, 1}, {6, 2}, {6, 3}, {3, 4}}));
  return shape;
}

void slice(Viewed& v, int axis) {
  const std::int64_t n = v.model.shape[axis];
  const auto start = random(-n - 2, n + 2), end = random(-n - 2, n + 2), step = random(1, 3);
  Positions kept;  // as Python's range(n)[start:end:step]
  const auto from = start < 0 ? std::max<std::int64_t>(start + n, 0) : start;
  const auto to = std::min(end < 0 ? end + n : end, n);
  for (auto i = from; i < to; i += step) kept.push_back(i);
  Shape shape = v.model.shape;
  shape[axis] = static_cast<std::int64_t>(kept.size());
  v.model = v.model.show(shape, [&](Index index) {
    auto& at = index[static_cast<std::size_t>(axis)];
    at = kept[static_cast<std::size_t>(at)];
    return index;
  });
  v.tensor = v.tensor.slice(random(0, 1) ? axis : axis - shape.rank(), start, end, step);
}

void select(Viewed& v, int axis) {
  const std::int64_t n = v.model.shape[axis];
  if (n == 0) return;
  const auto chosen = random(-n, n - 1);
  Shape shape = v.model.shape;
  shape.erase(axis);
  v.model = v.model.show(shape, [&](Index index) {
    index.insert(index.begin() + axis, chosen < 0 ? chosen + n : chosen);
    return index;
  });
  v.tensor = v.tensor.select(axis, chosen);
}

void transpose(Viewed& v, int axis) {
  const auto other = static_cast<int>(random(0, v.model.shape.rank() - 1));
  Shape shape = v.model.shape;
  std::swap(shape[axis], shape[other]);
  v.model = v.model.show(shape, [&](Index index) {
    std::swap(index[static_cast<std::size_t>(axis)], index[static_cast<std::size_t>(other)]);
    return index;
  });
  v.tensor = v.tensor.transpose(axis, other);
}

void reverse_axes(Viewed& v) {
  Shape shape;
  for (int axis = v.model.shape.rank() - 1; axis >= 0; --axis) shape.push_back(v.model.shape[axis]);
  v.model = v.model.show(shape, [](Index index) {
    std::reverse(index.begin(), index.end());
    return index;
  });
  v.tensor = v.tensor.transpose();
}

void expand(Viewed& v) {
  if (v.model.where.size() > 500) return;
  Shape shape = v.model.shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] == 1) shape[axis] = random(0, 6) / 2;
  const int added = shape.rank() < 6 ? static_cast<int>(random(0, 1)) : 0;
  if (added > 0) shape.insert(0, random(1, 3));
  const Shape from = v.model.shape;
  v.model = v.model.show(shape, [&](Index index) {
    index.erase(index.begin(), index.begin() + added);
    for (int axis = 0; axis < from.rank(); ++axis)
      if (from[axis] == 1) index[static_cast<std::size_t>(axis)] = 0;
    return index;
  });
  v.tensor = v.tensor.expand(shape);
}

// Another factorisation of the same number of elements, with axes of size 1 strewn in.
Shape random_layout(std::int64_t count) {
  Shape shape;
  if (count == 0) return {random(0, 3), 0};
  for (auto left = count; left > 1;) {
    auto factor = random(2, 6);
    if (left % factor != 0 || shape.rank() == 4) factor = left;
    shape.insert(static_cast<int>(random(0, shape.rank())), factor);
    left /= factor;
  }
  for (auto ones = random(0, 2); ones > 0; --ones)
    shape.insert(static_cast<int>(random(0, shape.rank())), 1);
  return shape;
}

void reshape(Viewed& v) {
  const auto count = static_cast<std::int64_t>(v.model.where.size());
  const Shape shape = random_layout(count);
  Shape asked = shape;
  if (count > 0 && shape.rank() > 0 && random(0, 1))
    asked[static_cast<int>(random(0, shape.rank() - 1))] = -1;
  const bool fits = v.model.fits_strides(shape);
  // Once copied, elements no longer lie where the base has them, and the model cannot tell.
  const bool was_view = v.is_view();
  v.tensor = v.tensor.reshape(asked);
  RC_ASSERT(!was_view || v.is_view() == fits);
  v.model.shape = shape;
}

Viewed random_view() {
  Viewed v(random_shape(4));
  for (auto steps = random(0, 6); steps > 0; --steps) {
    const int rank = v.model.shape.rank();
    const int axis = rank > 0 ? static_cast<int>(random(0, rank - 1)) : 0;
    const auto step = random(0, 6);
    if (step == 0) expand(v);
    if (step == 1) reshape(v);
    if (step == 2) reverse_axes(v);
    if (rank == 0) continue;
    if (step == 3 || step == 4) slice(v, axis);
    if (step == 5) transpose(v, axis);
    if (step == 6 && rank > 2) select(v, axis);
  }
  return v;
}

void check_same(const Tensor& tensor, const Model& model) {
  RC_ASSERT(tensor.shape() == model.shape);
  RC_ASSERT(tensor.numel() == static_cast<std::int64_t>(model.where.size()));
  RC_ASSERT(values_of<std::int64_t>(tensor) == model.where);
}

RC_GTEST_PROP(Views, ShowWhatTheirIndicesSay, ()) {
  const Viewed v = random_view();
  check_same(v.tensor, v.model);
  check_same(v.tensor.contiguous(), v.model);
  check_same(v.tensor.clone(), v.model);
  RC_ASSERT(v.tensor.clone().strides() == contiguous_strides(v.model.shape));
  check_same(v.tensor.to(DType::f64).to(DType::i64), v.model);
  RC_ASSERT(equal(v.tensor, v.tensor.clone()));
  const Tensor sink = Tensor::zeros(v.model.shape, DType::i64);
  check_same(sink.copy_(v.tensor), v.model);
  RC_ASSERT(values_of<std::int64_t>(v.tensor.flatten()) == v.model.where);
}

RC_GTEST_PROP(Views, MayBeDescribedAnew, ()) {
  const Viewed v = random_view();
  const Tensor& t = v.tensor;
  check_same(Tensor::over(t.storage(), t.dtype(), t.shape(), t.strides(), t.offset()), v.model);
}

RC_GTEST_PROP(Views, WriteWhereTheirIndicesSay, ()) {
  const Viewed v = random_view();
  RC_PRE(v.is_view());
  const bool fill = random(0, 1) == 1;
  Positions wanted(static_cast<std::size_t>(v.base.numel()));
  std::iota(wanted.begin(), wanted.end(), 0);
  for (const std::int64_t at : v.model.where)
    wanted[static_cast<std::size_t>(at)] = fill ? -1 : -1 - at;
  if (fill) {
    v.tensor.fill_(-1);
  } else {
    const Tensor source = Tensor::empty(v.model.shape, DType::f64);
    std::transform(v.model.where.begin(), v.model.where.end(), source.span<double>().begin(),
                   [](std::int64_t at) { return static_cast<double>(-1 - at); });
    v.tensor.copy_(source);
  }
  RC_ASSERT(values_of<std::int64_t>(v.base) == wanted);
}

}  // namespace
}  // namespace shoal
