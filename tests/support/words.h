#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "shoal/runtime/tensor/tensor.h"
#include "support/expect_error.h"

namespace shoal::test {

// That a T takes only tensors which have a T's words.
template <class T>
void expect_checked_words(const T& sound) {
  const auto refused = [](const Tensor& tensor, ErrorKind kind, std::string_view part) {
    expect_error(
        kind, [&] { T{tensor}; }, part);
  };
  const std::int64_t size = sound.tensor().size(0);
  refused(Tensor(), ErrorKind::malformed, "undefined");
  refused(Tensor::zeros({size}, DType::u8), ErrorKind::malformed, "something else");
  refused(Tensor::zeros({size / 4}), ErrorKind::malformed, "dtype");
  refused(sound.tensor().slice(0, 0, 16), ErrorKind::malformed, "size");
  refused(sound.tensor().slice(0, 0, size - 1), ErrorKind::malformed, "");
  refused(sound.tensor().slice(0, 0, size, 2), ErrorKind::malformed, "shape");
  refused(sound.tensor().view({1, size}), ErrorKind::malformed, "shape");
  refused(sound.tensor().read_only(), ErrorKind::malformed, "read-only");
  const Tensor newer = sound.tensor().clone();
  newer.at<std::uint8_t>(4) += 1;
  refused(newer, ErrorKind::version_mismatch, "has version 2; this library knows 1");
  const Tensor larger = Tensor::zeros({size + 256}, DType::u8);
  larger.slice(0, 0, size).copy_(sound.tensor());
  refused(larger, ErrorKind::malformed, "size");
}

}  // namespace shoal::test
