#include "shoal/runtime/tensor/dlpack.h"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

constexpr const char* kTo = "to_dlpack";
constexpr const char* kFrom = "from_dlpack";

constexpr std::uint8_t kBool = 6;  // kDLBool; a header older than DLPack 0.8 does not have it

struct Code {
  DType dtype;
  std::uint8_t code, bits;
};
constexpr std::array<Code, kDTypeCount> kCodes{{{DType::f32, kDLFloat, 32},
                                                {DType::f64, kDLFloat, 64},
                                                {DType::f16, kDLFloat, 16},
                                                {DType::bf16, kDLBfloat, 16},
                                                {DType::i8, kDLInt, 8},
                                                {DType::u8, kDLUInt, 8},
                                                {DType::i16, kDLInt, 16},
                                                {DType::i32, kDLInt, 32},
                                                {DType::i64, kDLInt, 64},
                                                {DType::boolean, kBool, 8}}};

DLDataType code_of(DType dtype) {
  for (const Code& known : kCodes)
    if (known.dtype == dtype) return {known.code, known.bits, 1};
  throw Error({.kind = ErrorKind::unsupported, .call = kTo, .reason = "no code for this dtype"});
}

DType dtype_of_code(const DLDataType& type) {
  check(type.lanes == 1, ErrorKind::unsupported, kFrom, "elements are vectors of ", type.lanes,
        " lanes; only scalars are offered");
  for (const Code& known : kCodes)
    if (known.code == type.code && known.bits == type.bits) return known.dtype;
  throw Error(
      {.kind = ErrorKind::unsupported,
       .call = kFrom,
       .reason = concat("no dtype has code ", int{type.code}, " and ", int{type.bits}, " bits"),
       .remedy = "Convert the tensor before it is lent"});
}

// What `deleter` frees: the borrower's struct, and behind it what its pointers need to live.
struct Loan {
  DLManagedTensor managed{};
  Tensor tensor;
  std::array<std::int64_t, kMaxRank> shape{}, strides{};
};

void end_loan(DLManagedTensor* managed) { delete static_cast<Loan*>(managed->manager_ctx); }

struct EndBorrowing {
  void operator()(DLManagedTensor* lent) const {
    if (lent->deleter != nullptr) lent->deleter(lent);
  }
};

// As a number: newer headers have devices that lie outside the enum's values in an older one.
int device_of(const DLTensor& lent) {
  static_assert(sizeof lent.device.device_type == sizeof(int));
  int type = 0;
  std::memcpy(&type, &lent.device.device_type, sizeof type);
  return type;
}

std::size_t rank_of(const DLTensor& lent) {
  check(lent.ndim >= 0, ErrorKind::malformed, kFrom, "has ", lent.ndim, " axes");
  check(lent.ndim <= kMaxRank, ErrorKind::unsupported, kFrom, "has ", lent.ndim,
        " axes, a tensor at most ", kMaxRank);
  check(lent.ndim == 0 || lent.shape != nullptr, ErrorKind::malformed, kFrom, "has ", lent.ndim,
        " axes and no shape");
  return static_cast<std::size_t>(lent.ndim);
}

// Checked to be countable.
Shape shape_of(const DLTensor& lent) {
  const Shape shape(std::span<const std::int64_t>(lent.shape, rank_of(lent)));
  try {
    (void)numel(shape);
  } catch (const Error& error) {
    throw Error({.kind = ErrorKind::malformed, .call = kFrom, .reason = error.reason()});
  }
  return shape;
}

Strides strides_of(const DLTensor& lent, const Shape& shape) {
  Strides strides = contiguous_strides(shape);
  if (lent.strides == nullptr || numel(shape) == 0) return strides;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    // Nobody ever takes a step along an axis of one, and lenders put anything there.
    if (shape[axis] == 1) continue;
    strides[axis] = lent.strides[axis];
    if (strides[axis] < 0)
      throw Error({.kind = ErrorKind::unsupported,
                   .call = kFrom,
                   .reason = concat("axis ", axis, " of shape ", shape, " runs backwards, by ",
                                    strides[axis]),
                   .remedy = "Lend a contiguous copy"});
  }
  return strides;
}

// From the first byte to the end of the last, or more than there is memory.
std::size_t extent_of(const Shape& shape, const Strides& strides, DType dtype) {
  if (numel(shape) == 0) return 0;
  std::int64_t extent = 1, reach = 0;
  bool overflow = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    overflow |= __builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach);
    overflow |= __builtin_add_overflow(extent, reach, &extent);
  }
  overflow |= __builtin_mul_overflow(extent, static_cast<std::int64_t>(item_size(dtype)), &extent);
  return overflow ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(extent);
}

// The first element, with `extent` bytes from there on.
void* first_of(const DLTensor& lent, std::size_t extent, DType dtype) {
  if (extent == 0) return nullptr;
  check(lent.data != nullptr, ErrorKind::malformed, kFrom, "has elements and no data");
  std::uintptr_t first = 0, end = 0;
  const bool overflow = __builtin_add_overflow(reinterpret_cast<std::uintptr_t>(lent.data),
                                               lent.byte_offset, &first) ||
                        __builtin_add_overflow(first, extent, &end);
  check(!overflow, ErrorKind::malformed, kFrom, "its offset of ", lent.byte_offset,
        " bytes, its shape and its strides reach beyond all memory");
  if (first % item_size(dtype) != 0)
    throw Error(
        {.kind = ErrorKind::unsupported,
         .call = kFrom,
         .reason = concat("its elements are not aligned to their ", item_size(dtype), " bytes"),
         .remedy = "Lend an aligned copy"});
  return static_cast<std::byte*>(lent.data) + lent.byte_offset;
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  check(tensor.defined(), ErrorKind::invalid_argument, kTo, "the tensor is undefined");
  check(&tensor.device() == &cpu(), ErrorKind::unsupported, kTo,
        "the tensor is not in the cpu's memory; copy it there first");
  auto loan = std::make_unique<Loan>();
  loan->tensor = tensor;
  std::ranges::copy(tensor.shape(), loan->shape.begin());
  std::ranges::copy(tensor.strides(), loan->strides.begin());
  loan->managed = {.dl_tensor = {.data = tensor.data_ptr(),
                                 .device = {.device_type = kDLCPU, .device_id = 0},
                                 .ndim = tensor.rank(),
                                 .dtype = code_of(tensor.dtype()),
                                 .shape = loan->shape.data(),
                                 .strides = loan->strides.data(),
                                 .byte_offset = 0},
                   .manager_ctx = loan.get(),
                   .deleter = end_loan};
  return &loan.release()->managed;
}

Tensor from_dlpack(DLManagedTensor* lent) {
  check(lent != nullptr, ErrorKind::malformed, kFrom, "there is no tensor: the pointer is null");
  // From here on whoever drops it last, be it an exception, ends the borrowing.
  std::shared_ptr<DLManagedTensor> lender(lent, EndBorrowing{});
  const DLTensor& described = lent->dl_tensor;
  check(device_of(described) == kDLCPU, ErrorKind::unsupported, kFrom,
        "is in memory of device type ", device_of(described),
        ", not in the cpu's; copy it there first");
  const DType dtype = dtype_of_code(described.dtype);
  const Shape shape = shape_of(described);
  const Strides strides = strides_of(described, shape);
  const std::size_t extent = extent_of(shape, strides, dtype);
  void* first = first_of(described, extent, dtype);
  return Tensor::over(Storage::borrow(first, extent, std::move(lender)), dtype, shape, strides);
}

}  // namespace shoal
