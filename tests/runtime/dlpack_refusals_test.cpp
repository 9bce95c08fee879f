#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "shoal/runtime/tensor/dlpack.h"
#include "support/tensors.h"

namespace shoal {
namespace {

using test::refuses;

// What another library lends, sound at first: f32 of shape (2, 3). Each test breaks one thing.
class FromDlpackRefuses : public testing::Test {
 protected:
  FromDlpackRefuses() {
    lent.dl_tensor = {.data = numbers.data(),
                      .device = {.device_type = kDLCPU, .device_id = 0},
                      .ndim = 2,
                      .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                      .shape = shape.data(),
                      .strides = strides.data(),
                      .byte_offset = 0};
    lent.manager_ctx = &given_back;
    lent.deleter = [](DLManagedTensor* self) { ++*static_cast<int*>(self->manager_ctx); };
  }

  // A refused tensor is given back at once, and once.
  void expect(ErrorKind kind, std::initializer_list<std::string_view> words) {
    given_back = 0;
    EXPECT_TRUE(refuses([&] { (void)from_dlpack(&lent); }, words, kind));
    EXPECT_EQ(given_back, 1);
  }
  void expect_malformed(std::string_view words) {
    expect(ErrorKind::malformed, {"from_dlpack", words});
  }
  void expect_unsupported(std::string_view words) {
    expect(ErrorKind::unsupported, {"from_dlpack", words});
  }

  alignas(64) std::array<float, 6> numbers{};
  std::array<std::int64_t, kMaxRank + 1> shape{2, 3}, strides{3, 1};
  int given_back = 0;
  DLManagedTensor lent{};
  DLTensor& described = lent.dl_tensor;
};

TEST_F(FromDlpackRefuses, NothingOfWhatTheseTestsBreak) {
  EXPECT_EQ(from_dlpack(&lent).shape(), (Shape{2, 3}));
  EXPECT_EQ(given_back, 1);
}

TEST_F(FromDlpackRefuses, Null) {
  EXPECT_TRUE(
      refuses([] { (void)from_dlpack(nullptr); }, {"from_dlpack", "null"}, ErrorKind::malformed));
}

TEST_F(FromDlpackRefuses, MemoryOfOtherDevices) {
  for (const int type : {0, int{kDLCUDA}, int{kDLCUDAHost}, int{kDLROCM}, 17, -1}) {
    std::memcpy(&described.device.device_type, &type, sizeof type);
    expect_unsupported(concat("device type ", type));
  }
}

TEST_F(FromDlpackRefuses, ElementsThatNoDTypeHas) {
  const auto expect_type = [&](DLDataType type, std::string_view words) {
    described.dtype = type;
    expect_unsupported(words);
  };
  expect_type({kDLFloat, 32, 4}, "vectors of 4 lanes");
  expect_type({kDLFloat, 32, 0}, "vectors of 0 lanes");
  expect_type({kDLFloat, 8, 1}, "code 2 and 8 bits");
  expect_type({kDLUInt, 16, 1}, "code 1 and 16 bits");
  expect_type({kDLUInt, 1, 1}, "code 1 and 1 bits");
  expect_type({kDLOpaqueHandle, 64, 1}, "code 3");
  expect_type({kDLComplex, 64, 1}, "code 5");
  expect_type({6, 1, 1}, "code 6 and 1 bits");
  expect_type({255, 255, 1}, "code 255");
}

TEST_F(FromDlpackRefuses, ShapesThatAreNone) {
  described.ndim = -1;
  expect_malformed("has -1 axes");
  described.ndim = kMaxRank + 1;
  expect_unsupported("has 9 axes, a tensor at most 8");
  described.ndim = INT32_MAX;
  expect_unsupported("axes");
  described.ndim = 2;
  described.shape = nullptr;
  expect_malformed("no shape");
  described.shape = shape.data();
  shape[1] = -3;
  expect_malformed("[2, -3] has a negative size");
  shape[1] = INT64_MIN;
  expect_malformed("negative size");
}

TEST_F(FromDlpackRefuses, SizesThatDoNotFitMemory) {
  shape = {INT64_MAX, INT64_MAX};
  expect_malformed("too many elements");
  shape = {INT64_MAX / 8, 1};
  described.strides = nullptr;
  described.byte_offset = UINT64_MAX - 64;
  expect_malformed("beyond all memory");
}

TEST_F(FromDlpackRefuses, StridesThatDoNotFitMemory) {
  for (const std::int64_t stride : {INT64_MAX, INT64_MAX / 2, INT64_MAX / 4 + 1}) {
    strides[0] = stride;
    expect_malformed("beyond all memory");
  }
  shape = {3, 3};
  strides = {INT64_MAX / 2, INT64_MAX / 2};
  expect_malformed("beyond all memory");
}

TEST_F(FromDlpackRefuses, StridesThatRunBackwards) {
  strides[0] = -3;
  expect_unsupported("axis 0 of shape [2, 3] runs backwards, by -3. Lend a contiguous copy");
  strides[0] = INT64_MIN;
  expect_unsupported("runs backwards");
}

TEST_F(FromDlpackRefuses, ElementsWithoutData) {
  described.data = nullptr;
  expect_malformed("has elements and no data");
  described.byte_offset = 64;
  expect_malformed("has elements and no data");
}

TEST_F(FromDlpackRefuses, AnOffsetThatDoesNotFitMemory) {
  described.byte_offset = UINT64_MAX;
  expect_malformed("its offset of 18446744073709551615 bytes");
}

TEST_F(FromDlpackRefuses, ElementsThatAreNotAligned) {
  described.ndim = 0;
  described.byte_offset = 2;
  expect_unsupported("not aligned to their 4 bytes. Lend an aligned copy");
  described.byte_offset = 0;
  described.data = reinterpret_cast<std::byte*>(numbers.data()) + 1;
  expect_unsupported("not aligned");
}

}  // namespace
}  // namespace shoal
