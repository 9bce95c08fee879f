#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "support/scratch_directory.h"

namespace shoal::test {

// A made-up machine: a directory to stand before /proc, /sys and /dev/shm.
class FakeSystem {
 public:
  [[nodiscard]] const std::string& root() const { return scratch_.path(); }

  // `path` as the machine's own processes would say it: "/proc/meminfo".
  void put(std::string_view path, std::string_view text) {
    const std::string file = root() + std::string(path);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    write_file(file, text);
  }

 private:
  ScratchDirectory scratch_;
};

}  // namespace shoal::test
