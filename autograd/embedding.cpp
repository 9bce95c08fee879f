#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {

// y(…,d) = table(v,d)[index(…)]
Variable embedding(const Variable& table, const Tensor& index, bool sparse) {
  const Tensor y = ops::gather_rows(table.value(), index);
  return record("embedding", y, {table},
                [shape = table.shape(), index = Saved("embedding", index), sparse](
                    const Tensor& dy, const GradSlots& slots) {
                  if (sparse && slots.add_sparse(0, index.get(), dy)) return Grads{Tensor{}};
                  const Tensor dtable = Tensor::zeros(shape, dy.dtype());
                  ops::add_rows(dtable, index.get(), dy);
                  return Grads{dtable};
                });
}

// y(b,d) = the sum, or mean, of table(v,d)[index(b,n)] over n
Variable embedding_bag(const Variable& table, const Tensor& index, BagMode mode, bool sparse) {
  constexpr const char* kOp = "embedding_bag";
  check(index.defined() && index.rank() == 2, ErrorKind::invalid_argument, kOp,
        "needs an index(bags, size)");
  // An empty bag is 0, as in PyTorch.
  const bool is_mean = mode == BagMode::mean && index.size(1) > 0;
  const double factor = is_mean ? one_of(index.size(1)) : 1;
  const Tensor y = ops::sum_bags(table.value(), index, factor);
  return record(kOp, y, {table},
                [shape = table.shape(), index = Saved(kOp, index), factor, sparse](
                    const Tensor& dy, const GradSlots& slots) {
                  const Tensor each = factor == 1 ? dy : ops::scale(dy, factor);
                  if (sparse && slots.add_sparse(0, index.get(), each)) return Grads{Tensor{}};
                  SparseRows rows;
                  rows.add_bags(index.get(), each);
                  const Tensor dtable = Tensor::zeros(shape, dy.dtype());
                  rows.add_to(dtable, 1);
                  return Grads{dtable};
                });
}

}  // namespace shoal::autograd
