#pragma once

#include <cstdint>
#include <string>

#include "support/scratch_directory.h"

namespace shoal {

// An IDX file of bytes, as its definition says.
inline std::string idx_bytes(const std::vector<std::uint32_t>& sizes,
                             const std::vector<std::uint8_t>& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  bytes.append(values.begin(), values.end());
  return bytes;
}

// A data set that a model learns at once: class k is an image whose k-th pixel is bright.
class TinyMnist {
 public:
  static constexpr std::uint32_t kSamples = 400, kSide = 4;

  TinyMnist() {
    std::vector<std::uint8_t> images(kSamples * kSide * kSide, 0), labels(kSamples);
    for (std::uint32_t i = 0; i < kSamples; ++i) {
      labels[i] = static_cast<std::uint8_t>(i % 10);
      images[i * kSide * kSide + i % 10] = 255;
    }
    for (const char* part : {"train", "t10k"}) {
      write_file(scratch_.file(concat(part, "-images-idx3-ubyte")),
                 idx_bytes({kSamples, kSide, kSide}, images));
      write_file(scratch_.file(concat(part, "-labels-idx1-ubyte")), idx_bytes({kSamples}, labels));
    }
  }

  [[nodiscard]] const std::string& path() const { return scratch_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const { return scratch_.file(name); }
  [[nodiscard]] const ScratchDirectory& scratch() const { return scratch_; }

 private:
  ScratchDirectory scratch_;
};

}  // namespace shoal
