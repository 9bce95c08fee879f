#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "shoal/runtime/base/fd.h"

namespace shoal {

// A new file that takes the place of `path` as a whole or not at all.
//
// It is written beside the target under a name of its own (".shoal-<random>.tmp") and renamed by
// commit(). Without a commit it vanishes with this object; only a process that is killed in between
// leaves it behind. Errors carry `call` and the path. Not a public header.
class FileReplacement {
 public:
  // Throws Error(invalid_argument) if `path` is there already and no regular file: a directory, a
  // device, or a symbolic link, since renaming would replace the link and not what it points to.
  FileReplacement(std::string_view call, std::string path);
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;
  ~FileReplacement();

  // Throws Error(no_space) for a full disk or quota, Error(limit_reached) for a file too large.
  void write(std::span<const std::byte> bytes);

  // Flushes to the disk, then renames. After an Error the older file is still there, except when
  // the message says that the new one is in place and only its survival of a power cut is unknown.
  void commit();

 private:
  void check_target() const;
  [[noreturn]] void fail(std::string_view what) const;

  std::string call_;
  std::string path_;
  std::string name_;       // of the target, within directory_
  std::string temporary_;  // likewise; empty once renamed
  Fd directory_;
  Fd file_;
};

}  // namespace shoal
