#include "shoal/runtime/shm/shm_directory.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"

namespace shoal::shm_directory {
namespace {

std::string path_of(const std::string& name) { return concat(kPath, '/', name); }

std::string checked_prefix(std::string_view prefix) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  constexpr std::size_t kMost = 64;
  if (prefix.empty() || prefix.size() > kMost || prefix.front() == '.' ||
      prefix.find_first_not_of(kAllowed) != std::string_view::npos) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "set_name_prefix",
                 .subject = concat('\'', prefix, '\''),
                 .reason = "no prefix for names of shared memory",
                 .remedy =
                     "Use 1 to 64 letters, digits, '.', '_' and '-', no '.' in front; it also "
                     "comes from the environment variable SHOAL_NAME_PREFIX"});
  }
  return std::string(prefix);
}

struct Prefix {
  std::mutex mutex;
  std::string text;  // empty until it is asked for or set
};

Prefix& prefix() {
  static auto* instance = new Prefix;  // names are still removed while statics are destroyed
  return *instance;
}

}  // namespace

std::string name_prefix() {
  const std::scoped_lock hold(prefix().mutex);
  if (prefix().text.empty()) {
    const char* chosen = std::getenv("SHOAL_NAME_PREFIX");
    prefix().text = checked_prefix(chosen == nullptr ? "shoal-" : chosen);
  }
  return prefix().text;
}

void set_name_prefix(std::string_view text) {
  std::string checked = checked_prefix(text);
  const std::scoped_lock hold(prefix().mutex);
  prefix().text = std::move(checked);
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

void unlink(const std::string& name) noexcept {
  try {
    ::unlink(path_of(name).c_str());
  } catch (const std::bad_alloc&) {
    // Whoever reaps next finds the name.
  }
}

std::vector<std::string> list(std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(kPath, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(prefix)) names.push_back(std::move(name));
  }
  return names;
}

std::string describe_space() {
  struct statvfs space {};
  if (::statvfs(std::string(kPath).c_str(), &space) != 0) return "size unknown";
  return concat(ByteCount{space.f_bavail * space.f_frsize}, " free of ",
                ByteCount{space.f_blocks * space.f_frsize});
}

}  // namespace shoal::shm_directory
