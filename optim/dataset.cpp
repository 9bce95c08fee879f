#include "shoal/optim/dataset.h"

#include <cstring>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/ops.h"
#include "shoal/runtime/tensor/random.h"

namespace shoal::optim {
namespace {

// Row by row: rows are long, so copying them is a few memcpy.
Tensor gather_rows(const Tensor& from, std::span<const std::int64_t> indices) {
  Shape shape = from.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor rows = Tensor::empty(shape, from.dtype());
  const std::size_t row =
      from.numel() == 0 ? 0 : from.nbytes() / static_cast<std::size_t>(from.size(0));
  const auto* source = static_cast<const std::byte*>(from.data_ptr());
  auto* to = static_cast<std::byte*>(rows.data_ptr());
  for (const std::int64_t index : indices) {
    std::memcpy(to, source + static_cast<std::size_t>(index) * row, row);
    to += row;
  }
  return rows;
}

}  // namespace

Dataset Dataset::first(std::int64_t n) const {
  Dataset part = *this;
  part.inputs = inputs.slice(0, 0, n).clone();
  part.targets = targets.slice(0, 0, n).clone();
  return part;
}

void Dataset::validate() const {
  constexpr const char* kCall = "Dataset";
  check(inputs.defined() && targets.defined() && inputs.rank() >= 1 && targets.rank() >= 1,
        ErrorKind::invalid_argument, kCall, "inputs and targets need a first axis of samples");
  check(inputs.size(0) == targets.size(0), ErrorKind::invalid_argument, kCall, inputs.size(0),
        " inputs have ", targets.size(0), " targets");
  check(inputs.size(0) > 0, ErrorKind::invalid_argument, kCall, "there are no samples");
  check(inputs.is_contiguous() && targets.is_contiguous(), ErrorKind::invalid_argument, kCall,
        "inputs and targets must be contiguous");
}

Batch gather(const Dataset& data, std::span<const std::int64_t> indices, DType dtype) {
  const Tensor inputs = gather_rows(data.inputs, indices);
  Batch batch{.inputs = inputs.dtype() == DType::i64 ? inputs : inputs.to(dtype),
              .targets = gather_rows(data.targets, indices)};
  if (inputs.dtype() == DType::i64) return batch;
  if (data.scale != 1) batch.inputs = ops::scale(batch.inputs, data.scale);
  if (data.shift != 0) batch.inputs = ops::add(batch.inputs, Tensor::full({}, data.shift, dtype));
  return batch;
}

std::vector<std::int64_t> epoch_share(std::int64_t n, std::uint64_t seed, int epoch, int rank,
                                      int world_size) {
  check(world_size >= 1 && rank >= 0 && rank < world_size, ErrorKind::invalid_argument,
        "epoch_share", "rank ", rank, " of ", world_size);
  const auto order = Generator(seed + static_cast<std::uint64_t>(epoch)).permutation(n);
  std::vector<std::int64_t> share;
  for (auto i = static_cast<std::size_t>(rank); i < order.size();
       i += static_cast<std::size_t>(world_size))
    share.push_back(order[i]);
  return share;
}

}  // namespace shoal::optim
