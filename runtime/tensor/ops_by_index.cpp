#include <algorithm>
#include <cmath>

#include "shoal/runtime/device/dispatch.h"
#include "shoal/runtime/tensor/operands.h"
#include "shoal/runtime/tensor/ops.h"

// The ops that find, take or put elements and rows by their index, and cat, which puts tensors.
namespace shoal::ops {
namespace {

const std::int64_t* checked_index(const Tensor& x, const Tensor& index, const char* op) {
  check_operand(x, op);
  check(index.defined(), ErrorKind::invalid_argument, op, "the index is undefined");
  check(x.rank() == 2 && index.dtype() == DType::i64 && index.shape() == Shape{x.size(0)},
        ErrorKind::invalid_argument, op, "needs x(n,c) and i64 index(n), given ", x.shape(),
        " and ", to_string(index.dtype()), " ", index.shape());
  check(index.is_contiguous(), ErrorKind::invalid_argument, op, "index is not contiguous");
  check_below(index, x.size(1), op);
  return index.data<std::int64_t>();
}

// The index, contiguous, of rows of a table(v,d).
Tensor checked_rows(const Tensor& table, const Tensor& index, const char* op) {
  check_operand(table, op);
  check(index.defined() && table.rank() == 2 && index.dtype() == DType::i64,
        ErrorKind::invalid_argument, op, "needs a table(v,d) and an i64 index, given ",
        table.shape(), " and ", index.defined() ? to_string(index.dtype()) : "an undefined one");
  Tensor at = index.contiguous();
  check_below(at, table.size(0), op);
  return at;
}

}  // namespace

Largest max(const Tensor& x, int axis, bool keepdim) {
  check_operand(x, "max");
  axis = normalize_axis(axis, x.rank(), "max");
  const std::int64_t n = x.size(axis);
  check(n > 0, ErrorKind::invalid_argument, "max", "shape ", x.shape(), " has nothing along axis ",
        axis);
  Shape shape = x.shape();
  if (keepdim) {
    shape[axis] = 1;
  } else {
    shape.erase(axis);
  }
  Largest found{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, DType::i64)};
  if (found.values.numel() == 0) return found;
  const Tensor in = x.contiguous();
  const Around size = around(x.shape(), axis);
  visit_floating(x.dtype(), [&]<class T>() {
    const auto below = [](T a, T b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
    T* value = found.values.data<T>();
    std::int64_t* index = found.index.data<std::int64_t>();
    for (std::int64_t o = 0; o < size.outer; ++o) {
      const T* block = in.data<T>() + o * n * size.inner;
      for (std::int64_t i = 0; i < size.inner; ++i, ++value, ++index) {
        std::int64_t best = 0;
        for (std::int64_t k = 1; k < n; ++k)
          if (below(block[best * size.inner + i], block[k * size.inner + i])) best = k;
        *index = best;
        *value = block[best * size.inner + i];
      }
    }
  });
  return found;
}

Tensor max_backward(const Tensor& dy, const Tensor& index, const Shape& shape, int axis) {
  check_operand(dy, "max_backward");
  axis = normalize_axis(axis, shape.rank(), "max_backward");
  Shape reduced = shape;
  reduced[axis] = 1;
  check(dy.shape() == reduced && index.shape() == reduced, ErrorKind::invalid_argument,
        "max_backward", "gradient ", dy.shape(), " and index ", index.shape(), " do not fit ",
        shape, " along axis ", axis);
  Tensor dx = Tensor::zeros(shape, dy.dtype());
  if (dx.numel() == 0) return dx;
  const Tensor gradient = dy.contiguous();
  check_below(index, shape[axis], "max_backward");
  const auto at = index.span<std::int64_t>();
  const Around size = around(shape, axis);
  visit_floating(dy.dtype(), [&]<class T>() {
    for (std::int64_t o = 0; o < size.outer; ++o) {
      for (std::int64_t i = 0; i < size.inner; ++i) {
        const std::int64_t from = o * size.inner + i;
        const std::int64_t row = o * shape[axis] + at[static_cast<std::size_t>(from)];
        dx.data<T>()[row * size.inner + i] = gradient.data<T>()[from];
      }
    }
  });
  return dx;
}

Tensor cat(std::span<const Tensor> parts, int axis) {
  check(!parts.empty(), ErrorKind::invalid_argument, "cat", "no parts");
  for (const Tensor& part : parts) check_alike(parts[0], part, "cat");
  axis = normalize_axis(axis, parts[0].rank(), "cat");
  Shape shape = parts[0].shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape other = part.shape();
    if (other.rank() == shape.rank()) other[axis] = shape[axis];
    check(other == shape, ErrorKind::invalid_argument, "cat", "shapes ", parts[0].shape(), " and ",
          part.shape(), " differ in more than axis ", axis);
    shape[axis] += part.size(axis);
  }
  Tensor y = Tensor::empty(shape, parts[0].dtype());
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    y.slice(axis, at, at + part.size(axis)).copy_(part);
    at += part.size(axis);
  }
  return y;
}

Tensor argmax(const Tensor& x) {
  check(last_axis(x, "argmax") > 0, ErrorKind::invalid_argument, "argmax", "shape ", x.shape(),
        " has nothing along its last axis");
  return max(x, -1).index;
}

Tensor take(const Tensor& x, const Tensor& index) {
  const std::int64_t* at = checked_index(x, index, "take");
  const Tensor in = x.contiguous();
  Tensor y = Tensor::empty({x.size(0)}, x.dtype());
  y.device().take(y.dtype(), y.data_ptr(), in.data_ptr(), at, x.size(0), x.size(1));
  return y;
}

void add_at(const Tensor& y, const Tensor& index, double alpha) {
  const std::int64_t* at = checked_index(y, index, "add_at");
  check_target(y, "add_at");
  y.device().add_at(y.dtype(), y.data_ptr(), alpha, at, y.size(0), y.size(1));
}

CrossEntropy cross_entropy(const Tensor& x, const Tensor& targets) {
  constexpr const char* kName = "cross_entropy";
  check_operand(x, kName);
  check(targets.defined() && x.rank() == 2 && targets.dtype() == DType::i64 &&
            targets.shape() == Shape{x.size(0)},
        ErrorKind::invalid_argument, kName, "needs x(n,c) and i64 targets(n), given ", x.shape());
  const Tensor in = x.contiguous(), of = targets.contiguous();
  const std::int64_t n = x.size(1);
  const auto each = of.span<std::int64_t>();
  const auto wrong = std::ranges::find_if(each, [n](std::int64_t target) { return target >= n; });
  check(wrong == each.end(), ErrorKind::invalid_argument, kName, "target ",
        wrong == each.end() ? 0 : *wrong, " of row ", wrong - each.begin(), " is outside [0, ", n,
        ")");
  CrossEntropy y{Tensor::empty({x.size(0)}, x.dtype()), Tensor::empty(x.shape(), x.dtype())};
  x.device().cross_entropy(x.dtype(), y.losses.data_ptr(), y.dx.data_ptr(), in.data_ptr(),
                           each.data(), x.size(0), x.size(1));
  return y;
}

Tensor gather_rows(const Tensor& table, const Tensor& index) {
  const Tensor at = checked_rows(table, index, "gather_rows");
  Shape shape = index.shape();
  shape.push_back(table.size(1));
  Tensor y = Tensor::empty(shape, table.dtype());
  const Tensor in = table.contiguous();
  y.device().gather_rows(y.dtype(), y.data_ptr(), in.data_ptr(), at.data<std::int64_t>(),
                         at.numel(), table.size(1));
  return y;
}

void add_rows(const Tensor& y, const Tensor& index, const Tensor& rows, double alpha) {
  const Tensor at = checked_rows(y, index, "add_rows");
  check_alike(y, rows, "add_rows");
  Shape shape = index.shape();
  shape.push_back(y.size(1));
  check(rows.shape() == shape, ErrorKind::invalid_argument, "add_rows", "rows of shape ",
        rows.shape(), " for a y of shape ", y.shape(), " and index of shape ", index.shape());
  check_target(y, "add_rows");
  const Tensor in = may_overlap(y, rows) ? rows.clone() : rows.contiguous();
  y.device().add_rows(y.dtype(), y.data_ptr(), alpha, in.data_ptr(), at.data<std::int64_t>(),
                      nullptr, at.numel(), y.size(1));
}

Tensor sum_bags(const Tensor& table, const Tensor& index, double alpha) {
  constexpr const char* kName = "sum_bags";
  const Tensor at = checked_rows(table, index, kName);
  check(at.rank() == 2, ErrorKind::invalid_argument, kName, "needs an index(bags, size), given ",
        at.shape());
  Tensor y = Tensor::empty({at.size(0), table.size(1)}, table.dtype());
  const Tensor in = table.contiguous();
  y.device().sum_bags(y.dtype(), y.data_ptr(), alpha, in.data_ptr(), at.data<std::int64_t>(),
                      at.size(0), at.size(1), table.size(1));
  return y;
}

}  // namespace shoal::ops
