#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>

#include "shoal/runtime/io/safetensors.h"
#include "support/expect_error.h"
#include "support/in_child.h"
#include "support/scratch_directory.h"

namespace shoal {
namespace {

using namespace std::string_literals;

constexpr std::size_t kLarge = 1 << 20;  // bytes; more than fit where space is short

class SafetensorsSave : public ::testing::Test {
 protected:
  TensorFile round_trip(const TensorFile& file) {
    save_safetensors(path, file);
    return load_safetensors(path);
  }

  void expect_refused(ErrorKind kind, const std::string& target, const TensorFile& file,
                      std::string_view reason) {
    const auto before = scratch.names();
    expect_error(
        kind, [&] { save_safetensors(target, file); }, "save_safetensors", target, reason);
    EXPECT_EQ(scratch.names(), before);
  }

  ScratchDirectory scratch;
  std::string path = scratch.file("model.safetensors");
  TensorFile small{.tensors = {{"x", Tensor::arange(0, 3)}}, .metadata = {}};
  TensorFile large{.tensors = {{"x", Tensor::zeros({kLarge}, DType::u8)}}, .metadata = {}};
};

TEST_F(SafetensorsSave, WritesTheseBytes) {
  const TensorFile file{.tensors = {{"a", Tensor::from<std::int16_t>({1, -2})},
                                    {"b\n", Tensor::full({}, 1.5)},
                                    {"c", Tensor::from<float>({-2})},
                                    {"d", Tensor::from<bool>({true})}},
                        .metadata = {{"format", "pt"}, {"é", "\""}}};
  save_safetensors(path, file);
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\",\"é\":\"\\\"\"},"
      "\"b\\n\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
      "\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[8,12]},"
      "\"d\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[12,13]}}     ";
  ASSERT_EQ(header.size(), 0x108u);
  EXPECT_EQ(read_file(path),
            "\x08\x01\0\0\0\0\0\0"s + header + "\0\0\xC0\x3F\0\0\0\xC0\x01\0\xFE\xFF\x01"s);
}

TEST_F(SafetensorsSave, WritesAnEmptyFileThatLoads) {
  save_safetensors(path, {});
  EXPECT_EQ(read_file(path), "\x08\0\0\0\0\0\0\0{}      "s);
  EXPECT_TRUE(load_safetensors(path).tensors.empty());
}

TEST_F(SafetensorsSave, KeepsEveryBitOfEveryDType) {
  // All patterns of 16 bits, so that each NaN's payload is among them.
  std::vector<std::int16_t> patterns(1 << 16);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::int16_t>(i);
  TensorFile file;
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = *dtype_from_wire(static_cast<std::uint64_t>(number));
    const auto count = static_cast<std::int64_t>(patterns.size() * 2 / item_size(dtype));
    const Tensor tensor = Tensor::empty({2, count / 2}, dtype);
    if (dtype == DType::boolean) {
      for (int i = 0; i < count; ++i)
        tensor.at<bool>(i / (count / 2), i % (count / 2)) = i % 3 == 0;
    } else {
      std::memcpy(tensor.data_ptr(), patterns.data(), tensor.nbytes());
    }
    file.tensors.emplace(to_string(dtype), tensor);
  }
  const TensorFile loaded = round_trip(file);
  ASSERT_EQ(loaded.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor& back = loaded.tensors.at(name);
    EXPECT_EQ(back.dtype(), tensor.dtype());
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(back.data_ptr(), tensor.data_ptr(), tensor.nbytes()), 0) << name;
  }
}

TEST_F(SafetensorsSave, WritesViewsInRowMajorOrder) {
  const Tensor matrix = Tensor::arange(0, 12).reshape({3, 4});
  const TensorFile file{.tensors = {{"transposed", matrix.transpose()},
                                    {"sliced", matrix.slice(1, 1, 4, 2)},
                                    {"repeated", Tensor::full({1}, 2).expand({3, 5})}},
                        .metadata = {}};
  for (const auto& [name, tensor] : round_trip(file).tensors)
    EXPECT_TRUE(equal(tensor, file.tensors.at(name))) << name;
}

TEST_F(SafetensorsSave, KeepsShapesWithoutElementsOrAxes) {
  const TensorFile loaded = round_trip(
      {.tensors = {{"scalar", Tensor::full({}, 3, DType::f64)}, {"none", Tensor::zeros({4, 0, 2})}},
       .metadata = {}});
  EXPECT_EQ(loaded.tensors.at("scalar").shape(), Shape{});
  EXPECT_EQ(loaded.tensors.at("scalar").item<double>(), 3);
  EXPECT_EQ(loaded.tensors.at("none").shape(), (Shape{4, 0, 2}));
}

TEST_F(SafetensorsSave, KeepsMetadataAndUnusualNames) {
  const TensorFile file{.tensors = {{"", Tensor::arange(0, 1)},
                                    {"a\0b"s, Tensor::arange(0, 2)},
                                    {"\"\\\x01 層", Tensor::arange(0, 3)}},
                        .metadata = {{"", "\t"}, {"шаг", "10"}, {"__metadata__", "x"}}};
  const TensorFile loaded = round_trip(file);
  EXPECT_EQ(loaded.metadata, file.metadata);
  for (const auto& [name, tensor] : file.tensors)
    EXPECT_TRUE(equal(loaded.tensors.at(name), tensor));
}

TEST_F(SafetensorsSave, MakesEqualFilesOfEqualContents) {
  save_safetensors(path, small);
  const std::string first = read_file(path);
  save_safetensors(path, load_safetensors(path));
  EXPECT_EQ(read_file(path), first);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"model.safetensors"});
}

TEST_F(SafetensorsSave, GivesTheFileTheRightsThatTheUserWants) {
  const mode_t before = ::umask(027);
  save_safetensors(path, small);
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_F(SafetensorsSave, RefusesTensorsThatCannotBeWritten) {
  constexpr auto kWrong = ErrorKind::invalid_argument;
  expect_refused(kWrong, path, {.tensors = {{"x", Tensor()}}, .metadata = {}},
                 "\"x\" is undefined");
  expect_refused(kWrong, path, {.tensors = {{"__metadata__", Tensor::zeros({1})}}, .metadata = {}},
                 "the format keeps for metadata");
  expect_refused(kWrong, path, {.tensors = {{"\xFF", Tensor::zeros({1})}}, .metadata = {}},
                 "not valid UTF-8");
  expect_refused(kWrong, path, {.tensors = {}, .metadata = {{"a", "\xC0"}}}, "not valid UTF-8");
}

TEST_F(SafetensorsSave, RefusesTargetsThatAreNoFile) {
  constexpr auto kWrong = ErrorKind::invalid_argument;
  expect_refused(kWrong, "", small, "names no file");
  expect_refused(kWrong, scratch.path() + "/", small, "names no file");
  expect_refused(kWrong, scratch.path(), small, "is a directory");
  expect_refused(ErrorKind::not_found, scratch.file("missing/model"), small,
                 concat("Create the directory '", scratch.file("missing"), "' first"));
  write_file(scratch.file("other"), "old");
  expect_refused(ErrorKind::system, scratch.file("other/model"), small, "Not a directory");
  ASSERT_EQ(::symlink(scratch.file("other").c_str(), path.c_str()), 0);
  expect_refused(kWrong, path, small, "is a symbolic link. Name the file that it points to");
  ASSERT_EQ(::mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  expect_refused(kWrong, scratch.file("pipe"), small, "no regular file");
  EXPECT_EQ(read_file(scratch.file("other")), "old");
}

// What a child of the tests returns.
enum : int { kAsExpected = 0, kOtherwise = 1, kNotPermitted = 2 };

int save_expecting(ErrorKind kind, const std::string& path, const TensorFile& file) {
  try {
    save_safetensors(path, file);
  } catch (const Error& error) {
    if (error.kind() == kind && error.subject() == path) return kAsExpected;
    std::fprintf(stderr, "%s\n", error.what());
  }
  return kOtherwise;
}

TEST_F(SafetensorsSave, SaysThatADirectoryMayNotBeWritten) {
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0555), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::seteuid(65534) != 0) return int{kNotPermitted};
              return save_expecting(ErrorKind::system, path, small);
            }),
            kAsExpected);
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0700), 0);
  EXPECT_TRUE(scratch.names().empty());
}

TEST_F(SafetensorsSave, LeavesTheOlderFileWhenAFileMayNotGrow) {
  save_safetensors(path, small);
  const std::string before = read_file(path);
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              return save_expecting(ErrorKind::limit_reached, path, large);
            }),
            kAsExpected);
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"model.safetensors"});
}

TEST_F(SafetensorsSave, LeavesTheOlderFileWhenTheDiskIsFull) {
  const int outcome = in_child([&]() -> int {
    const int space = CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (::unshare(space) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=64k") != 0)
      return kNotPermitted;
    save_safetensors(path, small);
    const std::string before = read_file(path);
    const int saved = save_expecting(ErrorKind::no_space, path, large);
    const bool kept = read_file(path) == before &&
                      scratch.names() == std::vector<std::string>{"model.safetensors"};
    return kept ? saved : int{kOtherwise};
  });
  if (outcome == kNotPermitted) GTEST_SKIP() << "may not mount a small file system of its own";
  EXPECT_EQ(outcome, kAsExpected);
}

}  // namespace
}  // namespace shoal
