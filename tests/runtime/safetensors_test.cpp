#include "shoal/runtime/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/scratch_directory.h"

// What load_safetensors accepts and refuses; safetensors_save_test.cpp has the other half.
namespace shoal {
namespace {

using namespace std::string_literals;

// A file with this header as it stands.
std::string file_of(std::string_view header, std::string_view data = {}) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes.append(header).append(data);
}

template <class... Members>
std::string object(const Members&... members) {
  return concat("{", members..., "}");
}

// The header's member for one tensor.
std::string member(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

class SafetensorsLoad : public ::testing::Test {
 protected:
  TensorFile load(std::string_view bytes) { return load_safetensors(write_file(path, bytes)); }

  template <class... Reason>
  void expect_refused(ErrorKind kind, std::string_view bytes, const Reason&... reason) {
    expect_error(
        kind, [&] { (void)load(bytes); }, "load_safetensors", path, reason...);
  }
  template <class... Reason>
  void expect_malformed(std::string_view header, std::string_view data, const Reason&... reason) {
    expect_refused(ErrorKind::malformed, file_of(header, data), reason...);
  }

  ScratchDirectory scratch;
  std::string path = scratch.file("model.safetensors");
};

TEST_F(SafetensorsLoad, FindsTensorsWhereTheirOffsetsSay) {
  const auto file = load(file_of(
      object(member("late", "U8", "[2]", "[4,6]"), ",", member("early", "I16", "[2,1]", "[0,4]")),
      "\x01\x00\xFF\xFFhi"s));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors.at("early").shape(), (Shape{2, 1}));
  EXPECT_EQ(file.tensors.at("early").at<std::int16_t>(1, 0), -1);
  EXPECT_EQ(file.tensors.at("late").at<std::uint8_t>(0), 'h');
  EXPECT_TRUE(file.metadata.empty());
}

TEST_F(SafetensorsLoad, AcceptsAnyOrderOfFieldsAndPadding) {
  const auto file =
      load(file_of("{ \"x\" : {\"data_offsets\":[0,1], \"shape\":[], \"dtype\":\"BOOL\"},\n"
                   "\"__metadata__\":{\"format\":\"pt\",\"\":\"\\u00e9\"}}   ",
                   "\x01"));
  EXPECT_TRUE(file.tensors.at("x").item<bool>());
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(file.metadata.at(""), "é");
}

TEST_F(SafetensorsLoad, AcceptsTensorsWithoutElements) {
  EXPECT_TRUE(load(file_of("{}")).tensors.empty());
  const auto file = load(file_of(
      object(member("x", "U8", "[1]", "[0,1]"), ",", member("none", "F32", "[0,7]", "[0,0]"), ",",
             member("at_the_end", "F64", "[3,0]", "[1,1]")),
      "a"));
  EXPECT_EQ(file.tensors.at("none").shape(), (Shape{0, 7}));
  EXPECT_EQ(file.tensors.at("at_the_end").numel(), 0);
}

TEST_F(SafetensorsLoad, RefusesAHeaderThatIsNotThere) {
  expect_refused(ErrorKind::malformed, "", "is 0 bytes long");
  expect_refused(ErrorKind::malformed, "1234567", "is 7 bytes long");
  expect_refused(ErrorKind::malformed, file_of("{}      ").substr(0, 12),
                 "ends within its header: 8 bytes are announced, 4 are there");
  expect_refused(ErrorKind::malformed, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}",
                 "announces a header of 18446744073709551615 bytes");
  expect_refused(ErrorKind::malformed, "\x01\xE1\xF5\x05\0\0\0\0{}"s,
                 "announces a header of 100000001 bytes");
}

TEST_F(SafetensorsLoad, RefusesAHeaderThatIsNoJsonObject) {
  expect_malformed("", "", "does not begin with '{'");
  expect_malformed("[]", "", "does not begin with '{'");
  expect_malformed(" {}", "", "does not begin with '{'");
  expect_malformed("\xEF\xBB\xBF{}", "", "does not begin with '{'");
  expect_malformed("{", "", "no JSON in UTF-8 at its byte 2");
  expect_malformed("{}x", "", "no JSON in UTF-8 at its byte 3");
  expect_malformed("{\"a\":}", "", "no JSON");
  expect_malformed("{/* */}", "", "no JSON");
  expect_malformed("{}\0 hidden"s, "", "zero byte at 2");
  expect_malformed("{\"__metadata__\":{\"a\":\"\xC0\x80\"}}", "", "no JSON in UTF-8");
  expect_malformed("{\"__metadata__\":{\"a\":\"\\ud800\"}}", "", "no JSON in UTF-8");
}

TEST_F(SafetensorsLoad, RefusesNamesGivenTwice) {
  const std::string x = member("x", "U8", "[1]", "[0,1]");
  expect_malformed(object(x, ",", x), "a", "\"x\" is given twice");
  expect_malformed("{\"__metadata__\":{},\"__metadata__\":{}}", "",
                   "\"__metadata__\" is given twice");
  expect_malformed("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", "", "\"a\" is given twice");
  expect_malformed("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", "",
                   "\"x\": \"dtype\" is given twice");
}

TEST_F(SafetensorsLoad, RefusesValuesOfTheWrongKind) {
  for (const std::string value : {"null", "true", "1", "-1", "1.5", "\"text\"", "[]", "[[]]"})
    expect_malformed("{\"x\":" + value + "}", "", "\"x\"");
  for (const std::string value : {"null", "true", "1", "[]", "{}"}) {
    expect_malformed("{\"__metadata__\":{\"a\":" + value + "}}", "", "\"a\" holds");
    expect_malformed("{\"x\":{\"dtype\":" + value + "}}", "", "\"dtype\" holds");
  }
  for (const std::string field : {"shape", "data_offsets"})
    for (const std::string value :
         {"null", "1", "\"1\"", "{}", "[null]", "[[1]]", "[{}]", "[\"1\"]", "[-1]", "[-0]", "[1.0]",
          "[1e2]", "[18446744073709551616]"})
      expect_malformed(concat("{\"x\":{\"", field, "\":", value, "}}"), "", "\"x\"", field,
                       "holds");
  expect_malformed("{\"x\":{\"extra\":1}}", "", "\"extra\" is none of");
  expect_malformed("{\"x\":{\"shape\":[9223372036854775808]}}", "", "too large");
}

TEST_F(SafetensorsLoad, RefusesTensorsThatAreNotFullyDescribed) {
  expect_malformed("{\"x\":{}}", "", "lacks its dtype");
  expect_malformed("{\"x\":{\"dtype\":\"U8\"}}", "", "lacks its shape");
  expect_malformed("{\"x\":{\"dtype\":\"U8\",\"shape\":[]}}", "", "lacks one of its two");
  expect_malformed(object(member("x", "U8", "[]", "[0]")), "", "lacks one of its two");
  expect_malformed(object(member("x", "U8", "[]", "[0,1,1]")), "", "more than two numbers");
}

TEST_F(SafetensorsLoad, RefusesOffsetsThatDoNotTileTheData) {
  const auto two = [](const std::string& a, const std::string& b) {
    return object(member("a", "U8", "[2]", a), ",", member("b", "U8", "[2]", b));
  };
  EXPECT_EQ(load(file_of(two("[0,2]", "[2,4]"), "abcd")).tensors.size(), 2u);
  expect_malformed(two("[2,0]", "[2,4]"), "abcd", "ends before it begins");
  expect_malformed(two("[0,2]", "[0,2]"), "ab", "\"b\"", "overlaps another tensor");
  expect_malformed(two("[0,2]", "[1,3]"), "abc", "\"b\"", "overlaps another tensor");
  expect_malformed(two("[0,2]", "[3,5]"), "abcde", "\"b\"", "leaves a hole behind 2");
  expect_malformed(two("[1,3]", "[3,5]"), "abcde", "\"a\"", "leaves a hole behind 0");
  expect_malformed(two("[0,2]", "[2,4]"), "abcde", "end at 4 of 5 bytes");
  expect_malformed(two("[0,2]", "[2,4]"), "abc", "\"b\"", "beyond the file's 3 bytes");
  expect_malformed(two("[0,2]", "[2,9223372036854775807]"), "abcd", "beyond the file's 4 bytes");
  expect_malformed("{}", "a", "end at 0 of 1 bytes");
}

TEST_F(SafetensorsLoad, RefusesSizesThatDisagreeWithTheShape) {
  expect_malformed(object(member("x", "F32", "[2]", "[0,4]")), "abcd",
                   "shape [2] of f32 needs 8 bytes");
  expect_malformed(object(member("x", "F32", "[0]", "[0,4]")), "abcd", "needs 0 bytes");
  expect_malformed(object(member("x", "U8", "[4294967296,4294967296]", "[0,0]")), "",
                   "too many elements");
}

TEST_F(SafetensorsLoad, SaysWhatShoalDoesNotOffer) {
  expect_refused(ErrorKind::unsupported,
                 file_of(object(member("x", "F8_E4M3", "[1]", "[0,1]")), "a"),
                 "\"x\": dtype \"F8_E4M3\" is none of F32");
  expect_refused(ErrorKind::unsupported,
                 file_of(object(member("x", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), "a"),
                 "\"x\": has more axes than the 8");
}

TEST_F(SafetensorsLoad, RefusesABoolThatIsNeither) {
  expect_malformed(object(member("x", "BOOL", "[2]", "[0,2]")), "\x01\x02", "\"x\"", "BOOL");
}

TEST_F(SafetensorsLoad, AbridgesNamesInMessages) {
  const std::string name(100'000, 'n');
  try {
    (void)load(file_of("{\"" + name + "\":1}"));
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_LT(error.reason().size(), 200u);
  }
}

TEST_F(SafetensorsLoad, RefusesNestingOfAnyDepth) {
  std::string objects = "{\"x\":";
  for (int i = 0; i < 100'000; ++i) objects += "{\"dtype\":";
  expect_malformed(objects, "", "holds an object");
  expect_malformed("{\"x\":"s + std::string(100'000, '['), "", "holds a list");
}

TEST_F(SafetensorsLoad, RefusesWhatIsNoFile) {
  expect_error(
      ErrorKind::not_found, [&] { (void)load_safetensors(path); }, path);
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)load_safetensors(scratch.path()); }, scratch.path(),
      "is a directory");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)load_safetensors(path); }, path);
}

TEST_F(SafetensorsLoad, LoadsOrRefusesWhateverItIsGiven) {
  const std::string valid =
      file_of(object("\"__metadata__\":{\"k\":\"v\"},", member("a", "F32", "[2,1]", "[0,8]"), ",",
                     member("b", "BOOL", "[3]", "[8,11]"), ",", member("c", "I8", "[0]", "[8,8]")),
              "\0\0\x80\x3F\0\0\0\x40\x01\0\x01"s);
  ASSERT_EQ(load(valid).tensors.size(), 3u);
  expect_loads_or_refuses({valid}, 13, path, [this](const auto& bytes) { (void)load(bytes); });
}

}  // namespace
}  // namespace shoal
