#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

// What the fuzz targets share. libFuzzer calls LLVMFuzzerInitialize once, and then
// LLVMFuzzerTestOneInput with one input after the other; a crash or an abort is a finding.
namespace shoal::fuzz {

// For promises that are not kept.
inline void require(bool ok, const char* promise) {
  if (ok) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// Writes inputs to start from to the folder $SHOAL_FUZZ_SEEDS, which libFuzzer reads next.
inline void write_seeds(const std::vector<std::vector<std::byte>>& seeds) {
  const char* folder = std::getenv("SHOAL_FUZZ_SEEDS");
  if (folder == nullptr) return;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(std::string(folder) + "/seed-" + std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seeds[i].data()),
               static_cast<std::streamsize>(seeds[i].size()));
  }
}

// An input, taken apart from its front; zeros where it has ended.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class T>
  T take() {
    T value{};
    const auto part = left_.first(std::min(sizeof value, left_.size()));
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    left_ = left_.subspan(part.size());
    return value;
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return left_; }

 private:
  std::span<const std::byte> left_;
};

}  // namespace shoal::fuzz
