#include "shoal/runtime/io/npy_header.h"

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

constexpr std::size_t kAlignment = 64;  // of the elements, counted from the start of the file

std::string tuple_of(const Shape& shape) {
  std::string text = "(";
  for (int axis = 0; axis < shape.rank(); ++axis) text += concat(axis > 0 ? ", " : "", shape[axis]);
  return text + (shape.rank() == 1 ? ",)" : ")");
}

}  // namespace

std::string_view npy_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f4";
    case DType::f64:
      return "f8";
    case DType::f16:
      return "f2";
    case DType::bf16:
      return "";
    case DType::i8:
      return "i1";
    case DType::u8:
      return "u1";
    case DType::i16:
      return "i2";
    case DType::i32:
      return "i4";
    case DType::i64:
      return "i8";
    case DType::boolean:
      return "b1";
  }
  return "";
}

std::string format_npy_header(DType dtype, const Shape& shape, const std::string& path) {
  const std::string_view name = npy_name_of(dtype);
  if (name.empty())
    throw Error({.kind = ErrorKind::unsupported,
                 .call = "save_npy",
                 .subject = path,
                 .reason = concat("NumPy has no dtype for ", to_string(dtype)),
                 .remedy = "Convert it with to(DType::f32), or save it by save_safetensors"});
  std::string dict = concat("{'descr': '", item_size(dtype) == 1 ? '|' : '<', name,
                            "', 'fortran_order': False, 'shape': ", tuple_of(shape), ", }");
  // Magic, version 1.0 and a length of two bytes, which kMaxRank sizes never exceed.
  const std::size_t before = kNpyMagic.size() + 4;
  const std::size_t unaligned = before + dict.size() + 1;
  dict.append((kAlignment - unaligned % kAlignment) % kAlignment, ' ');
  dict += '\n';
  return concat(kNpyMagic, '\x01', '\0', static_cast<char>(dict.size() & 0xFF),
                static_cast<char>(dict.size() >> 8), dict);
}

}  // namespace shoal
