#include "shoal/runtime/io/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/scratch_directory.h"
#include "support/tensors.h"

// What goes to .npy files and comes from them; npy_refusals_test.cpp has what does not.
namespace shoal {
namespace {

using namespace std::string_literals;
using test::values_of;

// The bytes as NumPy 1.24 wrote them: its padding puts the elements at byte 128.
std::string by_numpy(const std::string& version_and_length, const std::string& dict,
                     const std::string& elements) {
  std::string bytes = "\x93NUMPY" + version_and_length + dict;
  bytes.append(127 - bytes.size(), ' ');
  return bytes + "\n" + elements;
}
const std::string kVersion1 = "\x01\0v\0"s, kVersion2 = "\x02\0t\0\0\0"s,
                  kVersion3 = "\x03\0t\0\0\0"s;

class Npy : public ::testing::Test {
 protected:
  Tensor load(std::string_view bytes) { return load_npy(write_file(path, bytes)); }
  Tensor load_dict(const std::string& dict, const std::string& elements) {
    return load(by_numpy(kVersion1, dict, elements));
  }
  std::string saved(const Tensor& tensor) {
    save_npy(path, tensor);
    return read_file(path);
  }

  ScratchDirectory scratch;
  std::string path = scratch.file("array.npy");
};

// np.arange(6, dtype='f4').reshape(2, 3)
const std::string kMatrix =
    by_numpy(kVersion1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
             "\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xA0@"s);
// np.array(1.5)
const std::string kScalar = by_numpy(
    kVersion1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "\0\0\0\0\0\0\xF8?"s);
// np.array([True, False])
const std::string kBools =
    by_numpy(kVersion1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\x01\0"s);
// np.zeros((0, 3), 'f2')
const std::string kNothing =
    by_numpy(kVersion1, "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 3), }", "");
// np.array([[-1]], 'i8')
const std::string kMinusOne =
    by_numpy(kVersion1, "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }",
             "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");

TEST_F(Npy, LoadsWhatNumPyWrote) {
  EXPECT_TRUE(equal(load(kMatrix), Tensor::from<float>({0, 1, 2, 3, 4, 5}).reshape({2, 3})));
  EXPECT_TRUE(equal(load(kScalar), Tensor::full({}, 1.5, DType::f64)));
  EXPECT_TRUE(equal(load(kBools), Tensor::from<bool>({true, false})));
  EXPECT_TRUE(equal(load(kNothing), Tensor::zeros({0, 3}, DType::f16)));
  EXPECT_TRUE(equal(load(kMinusOne), Tensor::full({1, 1}, -1, DType::i64)));
}

TEST_F(Npy, SavesTheBytesThatNumPyWrites) {
  EXPECT_EQ(saved(Tensor::arange(0, 6, DType::f32).reshape({2, 3})), kMatrix);
  EXPECT_EQ(saved(Tensor::full({}, 1.5, DType::f64)), kScalar);
  EXPECT_EQ(saved(Tensor::from<bool>({true, false})), kBools);
  EXPECT_EQ(saved(Tensor::zeros({0, 3}, DType::f16)), kNothing);
  EXPECT_EQ(saved(Tensor::full({1, 1}, -1, DType::i64)), kMinusOne);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"array.npy"});
}

TEST_F(Npy, LoadsLaterVersionsOfTheFormat) {
  // F.write_array(file, np.array([7], 'u1'), (2, 0)), and np.array([-1], 'i1'), (3, 0).
  EXPECT_TRUE(
      equal(load(by_numpy(kVersion2, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }",
                          "\x07")),
            Tensor::from<std::uint8_t>({7})));
  EXPECT_TRUE(
      equal(load(by_numpy(kVersion3, "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }",
                          "\xFF")),
            Tensor::from<std::int8_t>({-1})));
}

TEST_F(Npy, LoadsBigEndianElements) {
  // np.array([1, -2], '>i4')
  EXPECT_TRUE(equal(load_dict("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }",
                              "\0\0\0\x01\xFF\xFF\xFF\xFE"s),
                    Tensor::from<std::int32_t>({1, -2})));
  EXPECT_EQ(
      load_dict("{'descr': '>f8', 'fortran_order': False, 'shape': (), }", "?\xF8\0\0\0\0\0\0"s)
          .item<double>(),
      1.5);
  EXPECT_EQ(load_dict("{'descr': '>u1', 'fortran_order': False, 'shape': (2,), }", "\x01\x02")
                .at<std::uint8_t>(1),
            2);
}

TEST_F(Npy, LoadsFortranOrderAsAView) {
  // np.asfortranarray(np.arange(6, dtype='i2').reshape(2, 3))
  const Tensor tensor = load_dict("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }",
                                  "\0\0\x03\0\x01\0\x04\0\x02\0\x05\0"s);
  EXPECT_EQ(tensor.strides(), (Strides{1, 2}));
  EXPECT_TRUE(equal(tensor, Tensor::arange(0, 6, DType::i16).reshape({2, 3})));

  const Tensor cube = load_dict("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2, 3), }",
                                "\x00\x03\x01\x04\x02\x05"s);
  EXPECT_EQ(cube.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(values_of<std::uint8_t>(cube), (std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(load_dict("{'descr': '<f4', 'fortran_order': True, 'shape': (), }", "\0\0\x80?"s)
                .item<float>(),
            1);
  EXPECT_EQ(load_dict("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4), }", "").shape(),
            (Shape{0, 4}));
}

TEST_F(Npy, LoadsADictHoweverPythonMaySpellIt) {
  for (const std::string dict : {
           "{'descr':'|u1','fortran_order':False,'shape':(2,1)}",
           "{\"shape\": (2, 1,), \"descr\": \"|u1\", \"fortran_order\": False}",
           " { 'fortran_order' :False,\n\t'shape': ( 2 ,1 ) , 'descr': '<u1' , } \n\n",
           "{'descr': '=u1', 'fortran_order': False, 'shape': (2L, 1L), }",
       })
    EXPECT_EQ(load_dict(dict, "ab").shape(), (Shape{2, 1})) << dict;
}

TEST_F(Npy, KeepsEveryBitOfEveryDTypeThatNumPyHas) {
  std::vector<std::int16_t> patterns(1 << 16);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::int16_t>(i);
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = *dtype_from_wire(static_cast<std::uint64_t>(number));
    if (dtype == DType::bf16) continue;
    Tensor tensor = Tensor::arange(0, 1 << 16).to(dtype);
    if (dtype != DType::boolean) {
      const auto count = static_cast<std::int64_t>(patterns.size() * 2 / item_size(dtype));
      tensor = Tensor::empty({2, count / 2}, dtype);
      std::memcpy(tensor.data_ptr(), patterns.data(), tensor.nbytes());
    }
    save_npy(path, tensor);
    const Tensor back = load_npy(path);
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(back.data_ptr(), tensor.data_ptr(), tensor.nbytes()), 0)
        << to_string(dtype);
  }
}

TEST_F(Npy, SavesViewsInRowMajorOrder) {
  const Tensor matrix = Tensor::arange(0, 12).reshape({3, 4});
  for (const Tensor& view :
       {matrix.transpose(), matrix.slice(1, 1, 4, 2), matrix.select(1, 2).expand({2, 3})}) {
    save_npy(path, view);
    const Tensor back = load_npy(path);
    EXPECT_TRUE(back.is_contiguous());
    EXPECT_TRUE(equal(back, view));
  }
}

TEST_F(Npy, KeepsShapesOfAllRanks) {
  for (int rank = 0; rank <= kMaxRank; ++rank) {
    const Shape shape = Shape::filled(rank, 1);
    EXPECT_EQ(saved(Tensor::zeros(shape, DType::u8)).size() % 64, 1u);
    EXPECT_EQ(load_npy(path).shape(), shape);
  }
  // The longest header that there is.
  const Shape huge = [] {
    Shape sizes = Shape::filled(kMaxRank, INT64_MAX);
    sizes[0] = 0;
    return sizes;
  }();
  save_npy(path, Tensor::empty(huge));
  EXPECT_EQ(load_npy(path).shape(), huge);
}

TEST_F(Npy, ReplacesAnOlderFileOnlyByAWholeOne) {
  save_npy(path, Tensor::ones({2}));
  const std::string before = read_file(path);
  expect_error(
      ErrorKind::unsupported, [&] { save_npy(path, Tensor::ones({2}, DType::bf16)); }, "save_npy",
      path, "no dtype for bf16. Convert it with to(DType::f32)");
  expect_error(
      ErrorKind::invalid_argument, [&] { save_npy(path, {}); }, "save_npy", path, "undefined");
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(saved(Tensor::zeros({}, DType::u8)).size(), 129u);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"array.npy"});
}

TEST_F(Npy, IsNotSavedWhereNoFileCanBe) {
  const Tensor tensor = Tensor::ones({2});
  expect_error(
      ErrorKind::invalid_argument, [&] { save_npy(scratch.path(), tensor); }, "save_npy",
      scratch.path(), "is a directory");
  expect_error(
      ErrorKind::not_found, [&] { save_npy(scratch.file("missing/array.npy"), tensor); },
      "save_npy", "Create the directory");
  EXPECT_TRUE(scratch.names().empty());
}

}  // namespace
}  // namespace shoal
