#include "shoal/runtime/tensor/dlpack.h"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/strategies.h"
#include "support/tensors.h"

// Lending tensors to another library, and borrowing its. dlpack_refusals_test.cpp has what is not
// taken.
namespace shoal {
namespace {

using test::refuses;
using test::values_of;

struct Delete {
  void operator()(DLManagedTensor* lent) const { lent->deleter(lent); }
};
using Lent = std::unique_ptr<DLManagedTensor, Delete>;

Lent lend(const Tensor& tensor) { return Lent(to_dlpack(tensor)); }

TEST(ToDlpack, DescribesTheTensorsOwnBytes) {
  const Tensor tensor = Tensor::arange(0, 6, DType::f32).reshape({2, 3});
  const Lent lent = lend(tensor);
  const DLTensor& described = lent->dl_tensor;
  EXPECT_EQ(described.data, tensor.data_ptr());
  EXPECT_EQ(described.byte_offset, 0u);
  EXPECT_EQ(described.device.device_type, kDLCPU);
  EXPECT_EQ(described.device.device_id, 0);
  ASSERT_EQ(described.ndim, 2);
  EXPECT_EQ(Shape(std::span(described.shape, 2)), (Shape{2, 3}));
  EXPECT_EQ(Strides(std::span(described.strides, 2)), (Strides{3, 1}));
}

TEST(ToDlpack, PointsAtTheFirstElementOfAView) {
  const Tensor matrix = Tensor::arange(0, 12, DType::i32).reshape({3, 4});
  const Tensor view = matrix.slice(1, 1, 4, 2).transpose();
  const Lent lent = lend(view);
  EXPECT_EQ(lent->dl_tensor.data, &matrix.at<std::int32_t>(0, 1));
  EXPECT_EQ(lent->dl_tensor.byte_offset, 0u);
  EXPECT_EQ(Shape(std::span(lent->dl_tensor.shape, 2)), (Shape{2, 3}));
  EXPECT_EQ(Strides(std::span(lent->dl_tensor.strides, 2)), (Strides{2, 4}));
}

TEST(ToDlpack, NamesEachDTypeByTheTreatysCodes) {
  const auto code = [](DType dtype) {
    const Lent lent = lend(Tensor::zeros({1}, dtype));
    const DLDataType type = lent->dl_tensor.dtype;
    EXPECT_EQ(type.lanes, 1);
    return std::pair(int{type.code}, int{type.bits});
  };
  using Code = std::pair<int, int>;
  EXPECT_EQ(code(DType::f32), (Code{kDLFloat, 32}));
  EXPECT_EQ(code(DType::f64), (Code{kDLFloat, 64}));
  EXPECT_EQ(code(DType::f16), (Code{kDLFloat, 16}));
  EXPECT_EQ(code(DType::bf16), (Code{kDLBfloat, 16}));
  EXPECT_EQ(code(DType::i8), (Code{kDLInt, 8}));
  EXPECT_EQ(code(DType::u8), (Code{kDLUInt, 8}));
  EXPECT_EQ(code(DType::i16), (Code{kDLInt, 16}));
  EXPECT_EQ(code(DType::i32), (Code{kDLInt, 32}));
  EXPECT_EQ(code(DType::i64), (Code{kDLInt, 64}));
  EXPECT_EQ(code(DType::boolean), (Code{6, 8}));
}

TEST(ToDlpack, KeepsTheStorageUntilTheBorrowerIsDone) {
  std::weak_ptr<Storage> storage;
  Lent lent;
  {
    const Tensor tensor = Tensor::full({3}, 7);
    storage = tensor.storage();
    lent = lend(tensor);
  }
  ASSERT_FALSE(storage.expired());
  EXPECT_EQ(static_cast<const float*>(lent->dl_tensor.data)[2], 7);
  lent.reset();
  EXPECT_TRUE(storage.expired());
}

TEST(ToDlpack, RefusesAnUndefinedTensor) {
  EXPECT_TRUE(refuses([] { (void)to_dlpack({}); }, {"to_dlpack", "undefined"}));
}

TEST(Dlpack, BringsEveryDTypeBackToTheSameBytes) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = *dtype_from_wire(static_cast<std::uint64_t>(number));
    const Tensor tensor = Tensor::full({2, 2}, 1, dtype);
    const Tensor back = from_dlpack(to_dlpack(tensor));
    EXPECT_EQ(back.data_ptr(), tensor.data_ptr());
    EXPECT_TRUE(equal(back, tensor)) << to_string(dtype);
  }
}

TEST(Dlpack, BringsViewsBackAsTheyWere) {
  const Tensor matrix = Tensor::arange(0, 12).reshape({3, 4});
  for (const Tensor& view :
       {matrix.transpose(), matrix.slice(1, 1, 4, 2), matrix.select(0, 2),
        matrix.select(0, 1).select(0, 2), matrix.slice(0, 1, 2).expand({5, 4})}) {
    const Tensor back = from_dlpack(to_dlpack(view));
    EXPECT_EQ(back.strides(), view.strides());
    EXPECT_TRUE(equal(back, view)) << view;
  }
}

TEST(Dlpack, BringsTensorsWithoutElementsBack) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0, 2}, Shape{0, INT64_MAX, INT64_MAX}})
    EXPECT_EQ(from_dlpack(to_dlpack(Tensor::empty(shape))).shape(), shape);
}

// A lender of numbers, which counts how often they are given back.
struct Lender {
  // Owned by the borrower; the struct goes with its deleter, as the treaty wants.
  DLManagedTensor* lend() {
    return new DLManagedTensor{.dl_tensor = {.data = numbers.data(),
                                             .device = {.device_type = kDLCPU, .device_id = 0},
                                             .ndim = 2,
                                             .dtype = {.code = kDLInt, .bits = 32, .lanes = 1},
                                             .shape = shape.data(),
                                             .strides = nullptr,
                                             .byte_offset = 0},
                               .manager_ctx = this,
                               .deleter = [](DLManagedTensor* self) {
                                 ++static_cast<Lender*>(self->manager_ctx)->given_back;
                                 delete self;
                               }};
  }
  std::vector<std::int32_t> numbers{0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape{2, 3}, strides{};
  int given_back = 0;
};

TEST(FromDlpack, TakesMissingStridesForRowMajor) {
  Lender lender;
  const Tensor tensor = from_dlpack(lender.lend());
  EXPECT_EQ(tensor.dtype(), DType::i32);
  EXPECT_EQ(tensor.strides(), (Strides{3, 1}));
  EXPECT_EQ(tensor.at<std::int32_t>(1, 2), 5);
}

TEST(FromDlpack, CountsTheByteOffset) {
  Lender lender;
  lender.shape = {2, 1};
  lender.strides = {3, 1};
  DLManagedTensor* lent = lender.lend();
  lent->dl_tensor.strides = lender.strides.data();
  lent->dl_tensor.byte_offset = 2 * sizeof(std::int32_t);
  EXPECT_EQ(values_of<std::int32_t>(from_dlpack(lent)), (std::vector<std::int32_t>{2, 5}));
}

TEST(FromDlpack, CaresNotForStridesThatAreNeverWalked) {
  Lender lender;
  lender.shape = {1, 6};
  lender.strides = {INT64_MIN, 1};
  DLManagedTensor* lent = lender.lend();
  lent->dl_tensor.strides = lender.strides.data();
  const Tensor tensor = from_dlpack(lent);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(values_of<std::int32_t>(tensor.transpose()), lender.numbers);

  lender.shape = {0, 6};
  lent = lender.lend();
  lent->dl_tensor.strides = lender.strides.data();
  lent->dl_tensor.data = nullptr;
  EXPECT_EQ(from_dlpack(lent).shape(), (Shape{0, 6}));
}

TEST(FromDlpack, ReadsAndWritesTheLendersBytes) {
  Lender lender;
  const Tensor tensor = from_dlpack(lender.lend());
  lender.numbers[4] = 40;
  EXPECT_EQ(tensor.at<std::int32_t>(1, 1), 40);
  tensor.zero_();
  EXPECT_EQ(lender.numbers, std::vector<std::int32_t>(6, 0));
}

TEST(FromDlpack, GivesBackOnceWhenTheLastViewGoes) {
  Lender lender;
  Tensor view;
  {
    const Tensor tensor = from_dlpack(lender.lend());
    view = tensor.select(0, 1);
  }
  EXPECT_EQ(lender.given_back, 0);
  view = Tensor();
  EXPECT_EQ(lender.given_back, 1);
}

TEST(FromDlpack, TakesALenderThatWantsNothingBack) {
  Lender lender;
  const std::unique_ptr<DLManagedTensor> lent(lender.lend());
  lent->deleter = nullptr;
  EXPECT_EQ(from_dlpack(lent.get()).at<std::int32_t>(0, 1), 1);
  EXPECT_EQ(lender.given_back, 0);
}

// Bytes that another library made, and that other processes shall see.
class BorrowedSharing : public testing::TestWithParam<SharingStrategy> {};
INSTANTIATE_TEST_SUITE_P(, BorrowedSharing, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(BorrowedSharing, MovesTheBytesAndThenGivesThemBack) {
  Lender lender;
  const Tensor tensor = from_dlpack(lender.lend());
  const Tensor turned = tensor.transpose();
  turned.share_memory(GetParam());
  EXPECT_EQ(lender.given_back, 1);
  lender.numbers.assign(6, -1);
  EXPECT_TRUE(tensor.is_shared());
  EXPECT_EQ(values_of<std::int32_t>(tensor), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(turned.at<std::int32_t>(2, 1), 5);
  tensor.share_memory(GetParam());
  EXPECT_EQ(lender.given_back, 1);
}

TEST_P(BorrowedSharing, MovesOnlyWhatTheViewReaches) {
  Lender lender;
  lender.shape = {2, 2};
  lender.strides = {1, 2};
  DLManagedTensor* lent = lender.lend();
  lent->dl_tensor.strides = lender.strides.data();
  lent->dl_tensor.byte_offset = sizeof(std::int32_t);
  const Tensor tensor = from_dlpack(lent);
  EXPECT_EQ(tensor.storage()->nbytes(), 4 * sizeof(std::int32_t));
  tensor.share_memory(GetParam());
  EXPECT_EQ(values_of<std::int32_t>(tensor), (std::vector<std::int32_t>{1, 3, 2, 4}));
}

TEST_P(BorrowedSharing, IsLentOnFromSharedMemory) {
  Lent lent;
  {
    const Tensor tensor = Tensor::arange(0, 5);
    tensor.share_memory(GetParam());
    lent = lend(tensor);
  }
  EXPECT_EQ(static_cast<const std::int64_t*>(lent->dl_tensor.data)[4], 4);
}

TEST(StorageBorrow, RefusesMemoryThatNobodyKeepsOrThatIsNotThere) {
  int number = 0;
  EXPECT_TRUE(refuses([&] { (void)Storage::borrow(&number, sizeof number, nullptr); },
                      {"Storage::borrow", "needs a lender"}));
  EXPECT_TRUE(refuses([] { (void)Storage::borrow(nullptr, 1, std::make_shared<int>()); },
                      {"memory for 1 bytes"}));
}

}  // namespace
}  // namespace shoal
