#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/tensor.h"

// What tests of tensors share: reading elements without the code under test, and errors.
namespace shoal::test {

using Index = std::vector<std::int64_t>;

// Calls f(index) for every index of `shape` in row-major order.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  Index index(static_cast<std::size_t>(shape.rank()), 0);
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    f(index);
    for (auto axis = shape.rank() - 1; axis >= 0; --axis) {
      auto& at = index[static_cast<std::size_t>(axis)];
      if (++at < shape[axis]) break;
      at = 0;
    }
  }
}

// From the definition of strides and offset.
template <class T>
T& element(const Tensor& tensor, const Index& index) {
  std::int64_t at = tensor.offset();
  for (int axis = 0; axis < tensor.rank(); ++axis)
    at += index[static_cast<std::size_t>(axis)] * tensor.strides()[axis];
  return reinterpret_cast<T*>(tensor.storage()->data())[at];
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values;
  for_each_index(tensor.shape(), [&](const Index& i) { values.push_back(element<T>(tensor, i)); });
  return values;
}

// Whether f throws an Error of this kind whose message has all of `words`.
template <class F>
testing::AssertionResult refuses(F&& f, std::initializer_list<std::string_view> words = {},
                                 ErrorKind kind = ErrorKind::invalid_argument) {
  try {
    f();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (error.kind() != kind)
      return testing::AssertionFailure() << to_string(error.kind()) << ": " << message;
    for (const std::string_view word : words)
      if (message.find(word) == std::string_view::npos)
        return testing::AssertionFailure() << '"' << message << "\" lacks \"" << word << '"';
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace shoal::test
