#pragma once

#include <cstdint>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/device/dtype.h"

// From a DType, known when the program runs, to a C++ type, known when it is compiled:
// visit(dtype, [&]<class T>() { … }) calls the lambda for the one type that dtype names.
namespace shoal {

// Every dtype; Half and BFloat16 included.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::i8:
      return f.template operator()<std::int8_t>();
    case DType::u8:
      return f.template operator()<std::uint8_t>();
    case DType::i16:
      return f.template operator()<std::int16_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::boolean:
      return f.template operator()<bool>();
  }
  throw Error({.kind = ErrorKind::malformed, .call = "visit_dtype", .reason = "no such dtype"});
}

// The dtypes that arithmetic takes.
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    default:
      throw Error({.kind = ErrorKind::unsupported,
                   .call = "arithmetic",
                   .subject = std::string(to_string(dtype)),
                   .reason = "arithmetic takes f32 and f64",
                   .remedy = "Convert with Tensor::to(DType::f32)"});
  }
}

}  // namespace shoal
