#pragma once

#include <unistd.h>

#include <string>

namespace shoal::test {

// Whether a name stands under /dev/shm.
inline bool shm_name_exists(const std::string& name) {
  return ::access(("/dev/shm/" + name).c_str(), F_OK) == 0;
}

}  // namespace shoal::test
