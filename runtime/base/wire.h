#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shoal/runtime/base/error.h"

// Values to bytes and back, in this machine's byte order: messages never leave the machine.
namespace shoal {

class WireWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  // Several values of one size, without a length.
  void put_all(std::span<const std::int64_t> values) { append(std::as_bytes(values)); }
  // Room for so many bytes more.
  void reserve(std::size_t nbytes) { bytes_.reserve(bytes_.size() + nbytes); }
  // Length, then contents.
  void put_bytes(std::span<const std::byte> bytes) {
    put<std::uint64_t>(bytes.size());
    append(bytes);
  }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

  // The bytes alone, without a length.
  void append(std::span<const std::byte> bytes);

 private:
  std::vector<std::byte> bytes_;
};

// Reads what a WireWriter wrote, and trusts none of it: Error(malformed) where bytes are missing.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::span<const std::byte> get_bytes() {
    const auto size = get<std::uint64_t>();
    check(size <= left_.size(), ErrorKind::malformed, "WireReader", size, " bytes announced, ",
          left_.size(), " left");
    return take(static_cast<std::size_t>(size));
  }
  [[nodiscard]] std::string get_text() {
    const auto bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::size_t left() const { return left_.size(); }
  // Nothing may follow.
  void expect_end() const {
    check(left_.empty(), ErrorKind::malformed, "WireReader", left_.size(), " bytes too many");
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    check(size <= left_.size(), ErrorKind::malformed, "WireReader", size, " bytes wanted, ",
          left_.size(), " left");
    const auto taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  std::span<const std::byte> left_;
};

}  // namespace shoal
