#pragma once

#include <dirent.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/runtime/base/fd.h"

// The directory of named objects, /dev/shm: one flat folder that all processes of a machine (or a
// container) see. Names start with a prefix of Shoal's; everything is created with mode
// 0600.
//
// A name appears only once all behind it is ready: the file is made without a name (O_TMPFILE),
// filled, and then linked. So nobody meets a half-made object, and a process killed on the way
// leaves nothing.
namespace shoal::shm_directory {

inline constexpr std::string_view kPath = "/dev/shm";

// What the names of this process' segments start with: "shoal-" until it is set, or what the
// environment variable SHOAL_NAME_PREFIX says. At most kMostPrefix letters, digits, '.', '_' and
// '-', the first no '.': Error(invalid_argument) otherwise. Set it before the first named segment
// is made; reaping looks at names with the prefix alone. Any thread may call them.
[[nodiscard]] std::string name_prefix();
void set_name_prefix(std::string_view prefix);
inline constexpr std::size_t kMostPrefix = 48;
[[nodiscard]] bool is_name_prefix(std::string_view text);

// A new file without a name. Throws Error.
[[nodiscard]] Fd create_unnamed();

// Gives it the name; exclusive. False if the name is taken.
[[nodiscard]] bool link(const Fd& file, const std::string& name);

// An existing file, for reading and writing; no Fd if there is none or it is not ours to open.
// Symbolic links are not followed.
[[nodiscard]] Fd open(const std::string& name);

// Whether an open file, named or not, lies here.
[[nodiscard]] bool has(const Fd& file);

// Removes the name, and whether it is gone; a missing one is.
bool unlink(const std::string& name) noexcept;
// Unless the name is another file's.
void unlink(const std::string& name, const Fd& file) noexcept;

// All names, one after the other, for those who have other things to do meanwhile: there may be a
// hundred thousand. What is made or removed during the walk may be passed over or not. A directory
// that cannot be read has none.
class Walk {
 public:
  explicit Walk(std::string_view prefix);
  // The next name, or empty if it does not start with the prefix. False at the end.
  [[nodiscard]] bool step(std::string& name);

 private:
  std::string prefix_;
  std::unique_ptr<DIR, int (*)(DIR*)> directory_;
};

// Those that start with `prefix`.
[[nodiscard]] std::vector<std::string> list(std::string_view prefix);

// What a full directory still has and how large it is, for messages: "12 KiB free of 1 MiB".
[[nodiscard]] std::string describe_space();

}  // namespace shoal::shm_directory
