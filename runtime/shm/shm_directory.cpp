#include "shoal/runtime/shm/shm_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"

namespace shoal::shm_directory {
namespace {

std::string path_of(const std::string& name) { return concat(kPath, '/', name); }

std::string checked_prefix(std::string_view prefix) {
  if (!is_name_prefix(prefix)) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "set_name_prefix",
                 .subject = concat('\'', prefix, '\''),
                 .reason = "no prefix for names of shared memory",
                 .remedy = concat("Use 1 to ", kMostPrefix,
                                  " letters, digits, '.', '_' and '-', no '.' in front; it also "
                                  "comes from the environment variable SHOAL_NAME_PREFIX")});
  }
  return std::string(prefix);
}

// Never freed, since another thread may be reading it. No mutex, which a fork could leave locked.
struct Prefix {
  std::string text;
  const Prefix* before;
};
std::atomic<const Prefix*> current_prefix{nullptr};

}  // namespace

bool is_name_prefix(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.size() <= kMostPrefix && text.front() != '.' &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string name_prefix() {
  // Acquire and release: the text is whole for whoever sees the pointer.
  if (const Prefix* set = current_prefix.load(std::memory_order_acquire)) return set->text;
  const char* chosen = std::getenv("SHOAL_NAME_PREFIX");
  auto fresh = std::make_unique<const Prefix>(
      Prefix{checked_prefix(chosen == nullptr ? "shoal-" : chosen), nullptr});
  const Prefix* none = nullptr;
  if (current_prefix.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel))
    return fresh.release()->text;
  return none->text;
}

void set_name_prefix(std::string_view text) {
  auto fresh = std::make_unique<Prefix>(Prefix{checked_prefix(text), current_prefix.load()});
  while (!current_prefix.compare_exchange_weak(fresh->before, fresh.get(),
                                               std::memory_order_acq_rel)) {
  }
  (void)fresh.release();
}

bool has(const Fd& file) {
  struct stat folder {
  }, about{};
  return ::stat(std::string(kPath).c_str(), &folder) == 0 && ::fstat(file.get(), &about) == 0 &&
         folder.st_dev == about.st_dev;
}

Fd create_unnamed() {
  Fd file{::open(std::string(kPath).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (!file) {
    throw_errno("open(O_TMPFILE)", kPath,
                "Named shared memory needs a writable tmpfs there; the file_descriptor strategy "
                "needs none");
  }
  return file;
}

bool link(const Fd& file, const std::string& name) {
  // The link in /proc is the way to name an open file without privileges.
  const std::string opened = concat("/proc/self/fd/", file.get());
  if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, path_of(name).c_str(), AT_SYMLINK_FOLLOW) == 0)
    return true;
  if (errno == EEXIST) return false;
  throw_errno("linkat", path_of(name), "Named shared memory needs /proc and a writable /dev/shm");
}

Fd open(const std::string& name) {
  return Fd{::open(path_of(name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
}

bool unlink(const std::string& name) noexcept {
  try {
    return ::unlink(path_of(name).c_str()) == 0 || errno == ENOENT;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void unlink(const std::string& name, const Fd& file) noexcept {
  try {
    const std::string path = path_of(name);
    struct stat named {
    }, about{};
    if (::lstat(path.c_str(), &named) == 0 && ::fstat(file.get(), &about) == 0 &&
        named.st_dev == about.st_dev && named.st_ino == about.st_ino)
      ::unlink(path.c_str());
  } catch (const std::bad_alloc&) {
    // Whoever reaps next finds the name.
  }
}

Walk::Walk(std::string_view prefix)
    : prefix_(prefix), directory_(::opendir(std::string(kPath).c_str()), &::closedir) {}

bool Walk::step(std::string& name) {
  const dirent* entry = directory_ == nullptr ? nullptr : ::readdir(directory_.get());
  if (entry == nullptr) return false;
  const std::string_view found = entry->d_name;
  name = found.starts_with(prefix_) ? found : "";
  return true;
}

std::vector<std::string> list(std::string_view prefix) {
  std::vector<std::string> names;
  Walk walk(prefix);
  for (std::string name; walk.step(name);)
    if (!name.empty()) names.push_back(name);
  return names;
}

std::string describe_space() {
  struct statvfs space {};
  if (::statvfs(std::string(kPath).c_str(), &space) != 0) return "size unknown";
  return concat(ByteCount{space.f_bavail * space.f_frsize}, " free of ",
                ByteCount{space.f_blocks * space.f_frsize});
}

}  // namespace shoal::shm_directory
