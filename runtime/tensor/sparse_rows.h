#pragma once

#include <cstdint>

#include "shoal/runtime/tensor/tensor.h"

namespace shoal {

// Some rows of a table(v,d), by their index: a sparse gradient. A row may stand in it more than
// once; its value is the sum. For one thread at a time.
class SparseRows {
 public:
  SparseRows() = default;
  SparseRows(SparseRows&&) = default;
  SparseRows& operator=(SparseRows&&) = default;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  // How many, repeated ones counted as often.
  [[nodiscard]] std::int64_t count() const { return count_; }
  // Which they are, i64 (count); good until the next add or clear. Undefined before the first add.
  [[nodiscard]] Tensor index() const { return first(index_, count_); }
  // Their values (count, d), a copy.
  [[nodiscard]] Tensor rows() const;

  // Appends rows(…, d) for index(…), i64.
  // This and what follows throw Error(invalid_argument) for what does not fit.
  void add(const Tensor& index, const Tensor& rows);
  // Appends row i of rows(b, d) for each of the n in index(b, n)[i].
  void add_bags(const Tensor& index, const Tensor& rows);

  // table(v,d)[index] += alpha rows, one by one in the order they were appended. Unless told
  // otherwise, the table's storage counts it as a write (Storage::version).
  void add_to(const Tensor& table, double alpha, bool count_write = true) const;

  // Throws Error(invalid_argument) in the name of `call` unless table(v,d) has all these rows.
  void check_rows_of(const Tensor& table, const char* call) const;

  // Adds up the rows of one index, into where it first stood, in the order they were appended.
  void coalesce();
  // Keeps the memory for the next.
  void clear() { count_ = held_ = 0; }

 private:
  static Tensor first(const Tensor& of, std::int64_t n) {
    return of.defined() ? of.slice(0, 0, n) : of;
  }
  void append(const Tensor& index, const Tensor& rows, std::int64_t each);

  // Of both only what counts is in use. Entry i is rows_[source_[i]], so that a row which stands
  // for many is held once.
  Tensor index_{}, source_{};  // i64
  Tensor rows_{};
  std::int64_t count_ = 0, held_ = 0;
};

}  // namespace shoal
