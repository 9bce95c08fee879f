#include "shoal/runtime/tensor/sparse_rows.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/tensor/operands.h"
#include "shoal/runtime/tensor/ops.h"

namespace shoal {
namespace {

// With room for at least `wanted` along the first axis; what is in use is kept.
void grow(Tensor& tensor, std::int64_t used, std::int64_t wanted, Shape shape, DType dtype) {
  if (tensor.defined() && tensor.size(0) >= wanted) return;
  shape[0] = std::max<std::int64_t>(wanted, tensor.defined() ? 2 * tensor.size(0) : 0);
  const Tensor larger = Tensor::empty(shape, dtype);
  if (used > 0) larger.slice(0, 0, used).copy_(tensor.slice(0, 0, used));
  tensor = larger;
}

}  // namespace

Tensor SparseRows::rows() const {
  return rows_.defined() ? ops::gather_rows(first(rows_, held_), first(source_, count_)) : rows_;
}

void SparseRows::add(const Tensor& index, const Tensor& rows) {
  constexpr const char* kCall = "SparseRows::add";
  check(index.defined() && rows.defined() && rows.rank() > 0, ErrorKind::invalid_argument, kCall,
        "needs an index(…) and rows(…,d)");
  Shape shape = index.shape();
  shape.push_back(rows.size(-1));
  check(rows.shape() == shape, ErrorKind::invalid_argument, kCall, "rows of shape ", rows.shape(),
        " for an index of shape ", index.shape());
  append(index.reshape({index.numel()}), rows.reshape({index.numel(), rows.size(-1)}), 1);
}

void SparseRows::add_bags(const Tensor& index, const Tensor& rows) {
  check(index.defined() && rows.defined() && index.rank() == 2 && rows.rank() == 2 &&
            index.size(0) == rows.size(0),
        ErrorKind::invalid_argument, "SparseRows::add_bags", "needs index(b,n) and rows(b,d)");
  append(index.reshape({index.numel()}), rows, index.size(1));
}

// `each` entries of the index(n each) to each of rows(n, d).
void SparseRows::append(const Tensor& index, const Tensor& rows, std::int64_t each) {
  constexpr const char* kCall = "SparseRows";
  ops::check_operand(rows, kCall);
  check(index.dtype() == DType::i64, ErrorKind::invalid_argument, kCall, "an index of ",
        to_string(index.dtype()), "; it must be i64");
  if (count_ == 0 && rows_.defined() &&
      (rows_.dtype() != rows.dtype() || rows_.size(1) != rows.size(1))) {
    rows_ = {};
    held_ = 0;
  }
  check(!rows_.defined() || (rows_.dtype() == rows.dtype() && rows_.size(1) == rows.size(1)),
        ErrorKind::invalid_argument, kCall, "rows of shape ", rows.shape(), " do not fit those of ",
        rows_.shape());
  const std::int64_t n = index.numel(), m = rows.size(0);
  grow(index_, count_, count_ + n, {0}, DType::i64);
  grow(source_, count_, count_ + n, {0}, DType::i64);
  grow(rows_, held_, held_ + m, {0, rows.size(1)}, rows.dtype());
  index_.slice(0, count_, count_ + n).copy_(index);
  rows_.slice(0, held_, held_ + m).copy_(rows);
  std::int64_t* source = source_.data<std::int64_t>() + count_;
  for (std::int64_t row = held_; row < held_ + m; ++row)
    for (std::int64_t i = 0; i < each; ++i) *source++ = row;
  count_ += n;
  held_ += m;
}

void SparseRows::add_to(const Tensor& table, double alpha, bool count_write) const {
  if (empty()) return;
  check_rows_of(table, "SparseRows::add_to");
  ops::check_may_write(table, "SparseRows::add_to");
  if (count_write) table.storage()->count_write();
  table.device().add_rows(table.dtype(), table.data_ptr(), alpha, rows_.data_ptr(),
                          index_.data<std::int64_t>(), source_.data<std::int64_t>(), count_,
                          table.size(1));
}

void SparseRows::check_rows_of(const Tensor& table, const char* call) const {
  if (empty()) return;
  ops::check_alike(table, rows_, call);
  check(table.rank() == 2 && table.size(1) == rows_.size(1) && table.is_contiguous(),
        ErrorKind::invalid_argument, call, "rows of ", rows_.size(1), " for a table of ",
        table.shape());
  ops::check_below(index(), table.size(0), call);
}

void SparseRows::coalesce() {
  if (empty()) return;
  const std::int64_t d = rows_.size(1);
  const Tensor sums = Tensor::zeros({count_, d}, rows_.dtype());
  std::int64_t* index = index_.data<std::int64_t>();
  std::int64_t* source = source_.data<std::int64_t>();
  // Where each index first stood: open addressing in a table that is at most half full.
  const std::size_t slots = std::bit_ceil(2 * static_cast<std::size_t>(count_));
  std::vector<std::int64_t, CacheAllocator<std::int64_t>> place(slots, -1);
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count_; ++i) {
    // Fibonacci hashing: the multiplier is 2^64 over the golden ratio.
    const auto hash = static_cast<std::uint64_t>(index[i]) * 0x9E3779B97F4A7C15U;
    std::size_t slot = (hash >> 32U) & (slots - 1);
    while (place[slot] >= 0 && index[place[slot]] != index[i]) slot = (slot + 1) & (slots - 1);
    if (place[slot] < 0) {
      place[slot] = found;
      index[found++] = index[i];
    }
    // `sums` row by row, as a table whose index is where the entry stands.
    sums.device().add_rows(sums.dtype(), sums.data_ptr(), 1, rows_.data_ptr(), &place[slot],
                           source + i, 1, d);
  }
  rows_ = sums;
  for (std::int64_t i = 0; i < found; ++i) source[i] = i;
  count_ = held_ = found;
}

}  // namespace shoal
