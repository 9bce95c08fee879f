#include "shoal/runtime/shm/cgroup.h"

#include <algorithm>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

using system_file::add;
using system_file::subtract;

// Where a hierarchy with the controller is mounted, and which cgroup of it the mount shows.
struct Mount {
  int version = 0;
  std::string cgroup{};  // "/" on a host; "/docker/1f…" where only that part is bound in
  std::string path{};
};

// Blanks and backslashes of paths come as three octal digits: "\040".
std::string unescape(std::string_view text) {
  std::string plain;
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] <= '3' && octal(text[i + 1]) &&
        octal(text[i + 2]) && octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool has_item(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == item) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// "31 24 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
std::vector<Mount> find_mounts(std::string_view controller, const std::string& root) {
  std::vector<Mount> mounts;
  const std::string text = system_file::read(root + "/proc/self/mountinfo").value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = system_file::take_line(rest);
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view about = line.substr(dash + 3);
    const std::string_view type = system_file::take_word(about);
    if (type != "cgroup" && type != "cgroup2") continue;
    (void)system_file::take_word(about);
    if (type == "cgroup" && !has_item(system_file::take_word(about), controller)) continue;
    for (int skipped = 0; skipped < 3; ++skipped) (void)system_file::take_word(line);
    const std::string_view cgroup = system_file::take_word(line);
    mounts.push_back({.version = type == "cgroup2" ? 2 : 1,
                      .cgroup = unescape(cgroup),
                      .path = unescape(system_file::take_word(line))});
  }
  return mounts;
}

// What follows `directory` in `path`, if it lies there: "/b" for "/a/b" in "/a". Empty or from a
// slash on, as `path` is.
std::optional<std::string_view> below(std::string_view path, std::string_view directory) {
  if (directory == "/") return path == "/" ? "" : path;
  if (!path.starts_with(directory)) return std::nullopt;
  path.remove_prefix(directory.size());
  if (!path.empty() && path.front() != '/') return std::nullopt;
  return path;
}

// The mount that shows most of `cgroup`, and where in it. With none that shows it, as after a
// change of namespace, the first: the root that a container sees is its own or an ancestor.
struct Place {
  const Mount* mount = nullptr;
  std::optional<std::string_view> beneath;
};

Place find_place(const std::vector<Mount>& mounts, int version, std::string_view cgroup) {
  Place best;
  for (const Mount& mount : mounts) {
    if (mount.version != version) continue;
    const auto beneath = below(cgroup, mount.cgroup);
    const bool shows_more =
        beneath && (!best.beneath || mount.cgroup.size() > best.mount->cgroup.size());
    if (best.mount == nullptr || shows_more) best = {&mount, beneath};
  }
  return best;
}

// The directories of `cgroup` and its ancestors, innermost first.
void append_directories(const std::vector<Mount>& mounts, int version, std::string_view cgroup,
                        std::vector<CgroupDirectory>& directories) {
  const Place place = find_place(mounts, version, cgroup);
  if (place.mount == nullptr) return;
  std::string_view beneath = place.beneath.value_or("");
  // "/../x" lies outside of what our namespace shows.
  if (concat(beneath, '/').find("/../") != std::string::npos) beneath = {};
  for (bool own = true;; own = false) {
    directories.push_back(
        {.path = concat(place.mount->path, beneath), .version = version, .own = own});
    if (beneath.empty()) return;
    beneath = beneath.substr(0, beneath.rfind('/'));
  }
}

struct FileNames {
  const char *limit, *usage, *inactive, *active;
};
constexpr FileNames kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                        "total_active_file"};
constexpr FileNames kV2{"memory.max", "memory.current", "inactive_file", "active_file"};

// What may go to swap beyond the limit; without a word of the cgroup, all that the machine has.
std::uint64_t swap_beyond(const CgroupMemory& memory, const std::string& root,
                          const std::string& directory, int version) {
  const std::string machine = system_file::read(root + "/proc/meminfo").value_or("");
  const std::uint64_t swap_free = system_file::find_number(machine, "SwapFree:").value_or(0);
  if (swap_free == 0) return 0;
  const auto number = [&](const char* name) {
    return system_file::read_number(concat(directory, '/', name));
  };
  if (version == 2) {
    const auto most = number("memory.swap.max");
    return most ? std::min(swap_free, subtract(*most, number("memory.swap.current").value_or(0)))
                : swap_free;
  }
  // Memory and swap together.
  const auto most = number("memory.memsw.limit_in_bytes");
  if (!most) return swap_free;
  const std::uint64_t both = number("memory.memsw.usage_in_bytes").value_or(0);
  const std::uint64_t swapped =
      subtract(both, number("memory.usage_in_bytes").value_or(memory.used));
  return std::min(swap_free, subtract(*most, add(memory.limit, swapped)));
}

std::optional<CgroupMemory> read_level(const std::string& root, const CgroupDirectory& level,
                                       std::uint64_t enough) {
  const FileNames& names = level.version == 1 ? kV1 : kV2;
  const std::string directory = root + level.path;
  // "max" is no number.
  const auto limit = system_file::read_number(concat(directory, '/', names.limit));
  // Version 1 says "none" with the largest number of whole pages.
  if (!limit || *limit >= std::uint64_t{1} << 62) return std::nullopt;
  // Old kernels could tell a cgroup of version 1 not to count what lies in it.
  if (level.version == 1 && !level.own &&
      system_file::read_number(directory + "/memory.use_hierarchy") == 0)
    return std::nullopt;
  const auto usage = system_file::read_number(concat(directory, '/', names.usage));
  if (!usage) return std::nullopt;
  CgroupMemory memory{.limit = *limit,
                      .used = *usage,
                      .limit_with_swap = *limit,
                      .file = concat(level.path, '/', names.limit)};
  if (memory.free() >= enough) return memory;
  const std::string stat = system_file::read(directory + "/memory.stat").value_or("");
  const std::uint64_t cache = add(system_file::find_number(stat, names.inactive).value_or(0),
                                  system_file::find_number(stat, names.active).value_or(0));
  memory.used = subtract(*usage, cache);
  memory.limit_with_swap = add(*limit, swap_beyond(memory, root, directory, level.version));
  return memory;
}

}  // namespace

std::vector<CgroupDirectory> find_cgroups(std::string_view controller, const std::string& root) {
  std::vector<CgroupDirectory> directories;
  const std::string text = system_file::read(root + "/proc/self/cgroup").value_or("");
  std::vector<Mount> mounts;
  // "4:memory:/docker/1f…" in version 1, "0::/docker/1f…" in version 2; a host may have both.
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = system_file::take_line(rest);
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos || !line.substr(second + 1).starts_with('/')) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool v1 = has_item(controllers, controller);
    if (!v1 && !(controllers.empty() && line.substr(0, first) == "0")) continue;
    if (mounts.empty()) mounts = find_mounts(controller, root);
    append_directories(mounts, v1 ? 1 : 2, line.substr(second + 1), directories);
  }
  return directories;
}

std::optional<CgroupMemory> read_cgroup_memory(const std::string& root, std::uint64_t enough) {
  std::optional<CgroupMemory> tightest;
  for (const CgroupDirectory& level : find_cgroups("memory", root)) {
    auto memory = read_level(root, level, enough);
    if (memory && (!tightest || memory->free() < tightest->free())) tightest = std::move(memory);
  }
  return tightest;
}

}  // namespace shoal
