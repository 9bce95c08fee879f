#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shoal/runtime/base/fd.h"

namespace shoal {

// A file that is read from its first byte to its last. `call` is the reader named in errors, which
// all carry the path. Not a public header.
class InputFile {
 public:
  // Throws Error(not_found) for a missing file and Error(invalid_argument) for what is no regular
  // file: a directory, a pipe, a device.
  InputFile(std::string_view call, std::string path);

  // As the file system says; the file may change while it is read.
  [[nodiscard]] std::uint64_t nbytes() const { return nbytes_; }

  // Fills `bytes` with what comes next. Throws Error(malformed) if the file ends before that.
  void read(std::span<std::byte> bytes);

  // Gives the descriptor to the caller, who closes it.
  [[nodiscard]] int release() { return fd_.release(); }

 private:
  std::string call_;
  std::string path_;
  Fd fd_;
  std::uint64_t nbytes_ = 0;
};

}  // namespace shoal
