#pragma once

#include <dirent.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

namespace shoal::test {

// A sanitizer's heap takes new memory for old, and its locks are not held around fork: a child
// forked while another thread allocates finds them locked for ever.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// What this process uses at the moment.
inline int open_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // ., .. and the folder's own
}

inline int mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

inline long minor_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace shoal::test
