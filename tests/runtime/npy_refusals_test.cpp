#include <gtest/gtest.h>

#include "shoal/runtime/io/npy.h"
#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/scratch_directory.h"

namespace shoal {
namespace {

using namespace std::string_literals;

// A file of format 1.0 with this header as it stands.
std::string file_of(std::string_view header, std::string_view elements = {}) {
  std::string bytes = "\x93NUMPY\x01\0"s;
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes.append(header).append(elements);
}

std::string dict(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

class NpyLoadRefuses : public ::testing::Test {
 protected:
  Tensor load(std::string_view bytes) { return load_npy(write_file(path, bytes)); }

  template <class... Reason>
  void expect(ErrorKind kind, std::string_view bytes, const Reason&... reason) {
    expect_error(
        kind, [&] { (void)load(bytes); }, "load_npy", path, reason...);
  }
  template <class... Reason>
  void expect_malformed(std::string_view bytes, const Reason&... reason) {
    expect(ErrorKind::malformed, bytes, reason...);
  }
  void expect_shape(const std::string& shape, std::string_view reason) {
    expect_malformed(file_of(dict("'|u1'", "False", shape)), reason);
  }

  ScratchDirectory scratch;
  std::string path = scratch.file("array.npy");
};

TEST_F(NpyLoadRefuses, FilesThatAreNotNumPys) {
  expect_malformed("", "ends within its magic: 0 of 6 bytes are there");
  expect_malformed("\x93NUMP", "ends within its magic");
  expect_malformed("\x93NUMPX\x01\0\0\0"s, "does not begin with \\x93NUMPY");
  expect_malformed("(dp0\nS'a'\n", "does not begin with");
  expect(ErrorKind::unsupported, "PK\x03\x04 and more", "archive", "Unpack it");
}

TEST_F(NpyLoadRefuses, OtherVersionsOfTheFormat) {
  expect(ErrorKind::version_mismatch, "\x93NUMPY\x04\0\0\0"s,
         "is of format 4.0; 1.0, 2.0 and 3.0 are read");
  expect(ErrorKind::version_mismatch, "\x93NUMPY\x00\x00\0\0"s, "format 0.0");
  expect(ErrorKind::version_mismatch, "\x93NUMPY\x01\x01\0\0"s, "format 1.1");
  expect(ErrorKind::version_mismatch, "\x93NUMPY\xFF\xFF\0\0"s, "format 255.255");
  expect_malformed("\x93NUMPY\x01", "ends within its version");
}

TEST_F(NpyLoadRefuses, HeadersThatAreNotThere) {
  expect_malformed("\x93NUMPY\x01\0\x05"s, "ends within its length of the header");
  expect_malformed("\x93NUMPY\x02\0\x05\0\0"s, "ends within its length of the header");
  expect_malformed("\x93NUMPY\x01\0\x05\0{}"s, "ends within its header: 2 of 5 bytes are there");
  expect_malformed("\x93NUMPY\x02\0\xFF\xFF\xFF\xFF{}"s, "announces a header of 4294967295 bytes");
  expect_malformed("\x93NUMPY\x03\0\x41\x42\x0F\0{}"s, "header of 1000001 bytes");
  expect_malformed(file_of(""), "byte 0 should be '{'");
}

TEST_F(NpyLoadRefuses, HeadersThatAreNoDict) {
  for (const std::string header : {"[]",
                                   "()",
                                   "x",
                                   "{",
                                   "{'descr'",
                                   "{'descr':",
                                   "{'descr': '<f4'",
                                   "{,}",
                                   "{'descr' '<f4'}",
                                   "{descr: '<f4'}",
                                   "{u'descr': '<f4'}",
                                   "{'descr\n': '<f4'}",
                                   "{'de\\x73cr': '<f4'}",
                                   "{'descr': <f4}",
                                   "{'descr': None}",
                                   "{'descr': 4}",
                                   "{'fortran_order': 0}",
                                   "{'fortran_order': 'False'}",
                                   "{'fortran_order': Falsey}",
                                   "{'shape': 3}",
                                   "{'shape': [3]}",
                                   "{'shape': (}",
                                   "{'shape': (3,,4)}",
                                   "{'shape': (,)}",
                                   "{'shape': (3 4)}",
                                   "{'shape': (x,)}",
                                   "{'shape': (1_0,)}",
                                   "{'shape': (0x10,)}",
                                   "{'shape': (1.0,)}",
                                   "{'shape': ((1,),)}",
                                   "{'shape': (1,)",
                                   "{'shape': (1,)]",
                                   "{'shape': (1,) 'descr': '<f4'}",
                                   "# {}",
                                   "{} {}"})
    expect_malformed(file_of(header), "should be");
  expect_malformed(file_of(dict("'|u1'", "False", "(0,)") + "\0"s), "should be nothing more");
}

TEST_F(NpyLoadRefuses, DictsOfOtherKeys) {
  expect_malformed(file_of("{}"), "lacks 'descr'");
  expect_malformed(file_of("{'descr': '<f4', 'shape': (), }"), "lacks 'fortran_order'");
  expect_malformed(file_of("{'descr': '<f4', 'fortran_order': True}"), "lacks 'shape'");
  expect_malformed(file_of("{'extra': 1}"), "the key \"extra\", which is none of");
  expect_malformed(file_of("{'\xFF\n': 1}"), "should be a string without escapes");
  expect_malformed(file_of("{'descr': '<f4', 'descr': '<f4'}"), "\"descr\" is given twice");
  expect_malformed(file_of("{'shape': (), 'shape': ()}"), "\"shape\" is given twice");
}

TEST_F(NpyLoadRefuses, DTypesThatShoalDoesNotHave) {
  const auto expect_dtype = [&](const std::string& descr, std::string_view reason,
                                std::string_view remedy) {
    expect(ErrorKind::unsupported, file_of(dict(descr, "False", "(1,)"), "12345678"), reason,
           remedy);
  };
  for (const std::string descr : {"<u2", "<u4", "<u8", "<c8", "<f16", "|S3", "<U2", "<M8[ns]",
                                  "|V2", "|f4", "f4", "<b2", "!f4", "<", "", "<f4 "})
    expect_dtype("'" + descr + "'", "dtype \"" + descr + "\" is none of f4 f8 f2",
                 "Convert it in NumPy by astype");
  for (const std::string descr : {"'|O'", "'|O8'", "'O'"})
    expect_dtype(descr, "Python objects, which are never unpickled", "Save an array of numbers");
  for (const std::string descr : {"[('a', '<f4'), ('b', '<i2')]", "('<f4', (2,))"})
    expect_dtype(descr, "records of several fields", "Save each field");
}

TEST_F(NpyLoadRefuses, ShapesThatAreNone) {
  expect_shape("(-1,)", "negative size");
  expect_shape("(2, -9223372036854775809)", "negative size");
  expect_shape("(9223372036854775808,)", "too large");
  expect_shape("(4294967296, 4294967296)", "too many elements");
  expect_shape("(3)", "is a number, not a tuple");
  expect(ErrorKind::unsupported,
         file_of(dict("'|u1'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "a"),
         "has more axes than the 8");
}

TEST_F(NpyLoadRefuses, ElementsThatDoNotFillTheShape) {
  const std::string header = dict("'<f4'", "False", "(2,)");
  expect_malformed(file_of(header, "1234567"),
                   "has 7 bytes of elements; shape [2] of f32 needs 8. Fetch the file again");
  expect_malformed(file_of(header, "123456789"), "has 9 bytes of elements");
  expect_malformed(file_of(header), "has 0 bytes");
  expect_malformed(file_of(dict("'<f4'", "True", "(0,)"), "1"), "needs 0");
  expect_malformed(file_of(dict("'<f8'", "False", "(1152921504606846975,)"), "1"), "needs");
}

TEST_F(NpyLoadRefuses, ABoolThatIsNeither) {
  expect_malformed(file_of(dict("'|b1'", "False", "(2,)"), "\x01\x02"), "a bool is neither");
}

TEST_F(NpyLoadRefuses, WhatIsNoFile) {
  expect_error(
      ErrorKind::not_found, [&] { (void)load_npy(path); }, path);
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)load_npy(scratch.path()); }, "is a directory");
}

TEST_F(NpyLoadRefuses, OrLoadsWhateverItIsGiven) {
  const std::string valid =
      file_of(dict("'>i2'", "True", "(2, 3)"), "\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06"s);
  ASSERT_EQ(load(valid).shape(), (Shape{2, 3}));
  expect_loads_or_refuses({valid}, 17, path, [this](const auto& bytes) { (void)load(bytes); });
}

}  // namespace
}  // namespace shoal
