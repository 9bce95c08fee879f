#include "shoal/runtime/io/file_replacement.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

constexpr int kAttempts = 16;  // at a name that nobody has; the second is practically never needed

std::string random_name() {
  std::random_device random;
  return concat(".shoal-", std::hex, random(), '-', random(), ".tmp");
}

}  // namespace

FileReplacement::FileReplacement(std::string_view call, std::string path)
    : call_(call), path_(std::move(path)) {
  const std::filesystem::path target(path_);
  name_ = target.filename();
  check(!name_.empty() && name_ != "." && name_ != "..", ErrorKind::invalid_argument, call_, "'",
        path_, "' names no file");
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  // All that follows is relative to this descriptor, so that it stays one and the same directory.
  directory_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_)
    throw_errno(concat(call_, ": open directory"), path_,
                errno == ENOENT ? concat("Create the directory '", folder, "' first") : "");
  check_target();
  for (int attempt = 0; !file_ && attempt < kAttempts; ++attempt) {
    temporary_ = random_name();
    file_.reset(::openat(directory_.get(), temporary_.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_ && errno != EEXIST) break;
  }
  if (!file_) fail("create a file beside");
}

FileReplacement::~FileReplacement() {
  if (!temporary_.empty()) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

void FileReplacement::check_target() const {
  struct stat status {};
  if (::fstatat(directory_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return;
    fail("stat");
  }
  const auto refuse = [&](const char* reason, const char* remedy) {
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = call_,
                 .subject = path_,
                 .reason = reason,
                 .remedy = remedy});
  };
  if (S_ISLNK(status.st_mode)) refuse("is a symbolic link", "Name the file that it points to");
  if (S_ISDIR(status.st_mode)) refuse("is a directory", "Name a file inside it");
  if (!S_ISREG(status.st_mode)) refuse("is there already and no regular file", "");
}

void FileReplacement::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void FileReplacement::commit() {
  // Before the rename: otherwise a power cut could leave the new name with no bytes behind it. An
  // fsync that failed is not repeated, since the kernel may have dropped what it could not write.
  if (::fsync(file_.get()) != 0) fail("fsync");
  check_target();
  if (::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0)
    fail("rename");
  temporary_.clear();
  // EINVAL: a file system whose directories need no flush or know none.
  if (::fsync(directory_.get()) != 0 && errno != EINVAL)
    throw_errno(concat(call_, ": fsync directory"), path_,
                "The new file is in place but may not survive a power cut");
}

void FileReplacement::fail(std::string_view what) const {
  const int error = errno;
  std::string remedy;
  struct statvfs space {};
  if (error == EFBIG) {
    remedy = "Raise the limit on the size of a file (ulimit -f)";
  } else if (error == ENOSPC && ::fstatvfs(directory_.get(), &space) == 0) {
    remedy = concat("The file system has ", space.f_bavail * space.f_frsize,
                    " bytes free for the rest and all others; make room or save elsewhere");
  }
  throw_errno(error, concat(call_, ": ", what), path_, remedy);
}

}  // namespace shoal
