#include "shoal/autograd/functions.h"
#include "shoal/autograd/rules.h"

namespace shoal::autograd {

// y(…,d) = table(v,d)[index(…)]
Variable embedding(const Variable& table, const Tensor& index) {
  return record("embedding", ops::gather_rows(table.value(), index), {table},
                [shape = table.shape(), index](const Tensor& dy) {
                  const Tensor dtable = Tensor::zeros(shape, dy.dtype());
                  ops::add_rows(dtable, index, dy);
                  return Grads{dtable};
                });
}

}  // namespace shoal::autograd
