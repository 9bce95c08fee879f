#include "shoal/runtime/io/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/scratch_directory.h"

namespace shoal {
namespace {

using namespace std::string_literals;

std::string big_endian(std::uint64_t number, int nbytes) {
  std::string bytes;
  for (int i = nbytes - 1; i >= 0; --i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string idx(unsigned code, std::initializer_list<std::uint64_t> sizes,
                std::string_view elements) {
  std::string bytes = "\0\0"s + static_cast<char>(code) + static_cast<char>(sizes.size());
  for (const auto size : sizes) bytes += big_endian(size, 4);
  return bytes.append(elements);
}

class Idx : public ::testing::Test {
 protected:
  Tensor read(std::string_view bytes) { return read_idx(write_file(path, bytes)); }

  std::string gzip(std::string_view bytes) {
    const gzFile file = ::gzopen(path.c_str(), "wb9");
    EXPECT_EQ(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    EXPECT_EQ(::gzclose(file), Z_OK);
    return read_file(path);
  }

  void expect_refused(ErrorKind kind, std::string_view bytes, std::string_view reason) {
    expect_error(
        kind, [&] { (void)read(bytes); }, "read_idx", path, reason);
  }

  ScratchDirectory scratch;
  std::string path = scratch.file("digits-idx");
};

TEST_F(Idx, ReadsBytesInRowMajorOrder) {
  const Tensor tensor = read(idx(0x08, {2, 3}, "\x00\x01\x02\xFD\xFE\xFF"s));
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor.at<std::uint8_t>(0, 2), 2);
  EXPECT_EQ(tensor.at<std::uint8_t>(1, 0), 0xFD);
}

TEST_F(Idx, TurnsBigEndianElementsOfEveryTypeAround) {
  EXPECT_EQ(read(idx(0x09, {1}, "\x80"s)).item<std::int8_t>(), -128);
  EXPECT_EQ(read(idx(0x0B, {1}, "\x80\x01"s)).item<std::int16_t>(), -32767);
  EXPECT_EQ(read(idx(0x0C, {1}, "\x01\x02\x03\x04"s)).item<std::int32_t>(), 0x01020304);
  const auto f32 = big_endian(std::bit_cast<std::uint32_t>(-1.5f), 4);
  EXPECT_EQ(read(idx(0x0D, {1}, f32)).item<float>(), -1.5f);
  const auto f64 = big_endian(std::bit_cast<std::uint64_t>(M_PI), 8);
  EXPECT_EQ(read(idx(0x0E, {1}, f64)).item<double>(), M_PI);
}

TEST_F(Idx, KeepsTheBitsOfANaN) {
  const std::uint32_t payload = 0x7FA12345;
  const Tensor tensor = read(idx(0x0D, {1}, big_endian(payload, 4)));
  EXPECT_EQ(*static_cast<const std::uint32_t*>(tensor.data_ptr()), payload);
}

TEST_F(Idx, ReadsGzipAsItReadsPlainFiles) {
  std::string elements(3 << 20, '\0');  // larger than what is read at once
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<char>(i * i >> 7);
  const std::string plain = idx(0x08, {3, 1 << 20}, elements);
  const Tensor expected = read(plain);
  EXPECT_EQ(std::memcmp(expected.data_ptr(), elements.data(), elements.size()), 0);
  EXPECT_TRUE(equal(read(gzip(plain)), expected));
}

TEST_F(Idx, ReadsGzipOfSeveralMembers) {
  const std::string plain = idx(0x08, {4}, "abcd");
  EXPECT_EQ(read(gzip(plain.substr(0, 6)) + gzip(plain.substr(6))).at<std::uint8_t>(3), 'd');
}

TEST_F(Idx, ReadsFilesWithoutElements) {
  EXPECT_EQ(read(idx(0x0D, {0, 28, 28}, "")).shape(), (Shape{0, 28, 28}));
  // Sizes whose product without the zero does not fit any number.
  constexpr std::uint64_t kHuge = 0xFFFFFFFF;
  EXPECT_EQ(read(idx(0x0D, {0, kHuge, kHuge, kHuge, kHuge}, "")).numel(), 0);
}

TEST_F(Idx, SaysWhereAFileEndsEarly) {
  expect_refused(ErrorKind::malformed, "", "ends after 0 bytes, within the magic number");
  expect_refused(ErrorKind::malformed, "\0\0\x08"s, "ends after 3 bytes");
  expect_refused(ErrorKind::malformed, idx(0x08, {3, 2}, "").substr(0, 9),
                 "ends after 9 bytes, within the sizes of its 2 axes");
  expect_refused(ErrorKind::malformed, idx(0x0C, {3, 2}, "short"),
                 "ends after 5 bytes of elements; shape [3, 2] of i32 needs 24");
}

TEST_F(Idx, RefusesBytesLeftOver) {
  expect_refused(ErrorKind::malformed, idx(0x08, {2}, "abc"), "left over after the 2");
  expect_refused(ErrorKind::malformed, idx(0x08, {0}, "a"), "left over after the 0");
}

TEST_F(Idx, RefusesWhatIsNoIdxFile) {
  expect_refused(ErrorKind::malformed, "PNG…", "begins with the bytes 80 78 instead of 0 0");
  expect_refused(ErrorKind::malformed, idx(0x0A, {1}, "a"), "type code 10 is none of 8 (u8)");
  expect_refused(ErrorKind::malformed, idx(0x08, {}, "a"), "has no axes");
  expect_refused(ErrorKind::unsupported, idx(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "a"),
                 "has 9 axes, a tensor at most 8");
}

TEST_F(Idx, RefusesSizesThatNoNumberHolds) {
  constexpr std::uint64_t kHuge = 0xFFFFFFFF;
  expect_refused(ErrorKind::malformed, idx(0x08, {kHuge, kHuge, kHuge}, "a"), "too many elements");
}

// Were it to allocate what is promised, there would be no space.
TEST_F(Idx, DoesNotBelieveWhatAHeaderPromises) {
  expect_refused(ErrorKind::malformed, idx(0x08, {0x40000000, 0x10000000}, "abc"),
                 "ends after 3 bytes of elements");
}

TEST_F(Idx, RefusesDamagedGzip) {
  const std::string sound = gzip(idx(0x08, {64}, std::string(64, 'x')));
  expect_refused(ErrorKind::malformed, sound.substr(0, 2), "compressed data end early");
  expect_refused(ErrorKind::malformed, sound.substr(0, sound.size() / 2),
                 "compressed data end early");
  expect_refused(ErrorKind::malformed, sound.substr(0, sound.size() - 1),
                 "compressed data end early");
  std::string wrong_checksum = sound;
  wrong_checksum[sound.size() - 8] ^= 1;
  expect_refused(ErrorKind::malformed, wrong_checksum, "damaged: incorrect data check");
  std::string wrong_length = sound;
  wrong_length[sound.size() - 4] ^= 1;
  expect_refused(ErrorKind::malformed, wrong_length, "damaged: incorrect length check");
}

TEST_F(Idx, SaysThatAFileIsMissing) {
  expect_error(
      ErrorKind::not_found, [&] { (void)read_idx(path); }, path);
}

TEST_F(Idx, RefusesDirectoriesAndPipesWithoutWaiting) {
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)read_idx(scratch.path()); }, scratch.path(),
      "is a directory");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)read_idx(path); }, path, "no regular file");
}

TEST_F(Idx, LoadsOrRefusesWhateverItIsGiven) {
  const std::string plain = idx(0x0C, {2, 3}, "abcdefghijklmnopqrstuvwx");
  expect_loads_or_refuses({plain, gzip(plain)}, 20, path,
                          [this](const auto& bytes) { EXPECT_TRUE(read(bytes).defined()); });
}

}  // namespace
}  // namespace shoal
