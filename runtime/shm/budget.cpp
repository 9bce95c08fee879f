#include "shoal/runtime/shm/budget.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <memory>

#include "shoal/runtime/shm/shm_directory.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

std::optional<DevShmSpace> read_dev_shm(const std::string& root) {
  struct statvfs space {};
  if (::statvfs((root + std::string(shm_directory::kPath)).c_str(), &space) != 0)
    return std::nullopt;
  // A tmpfs without a limit says 0 of 0.
  if (space.f_blocks == 0) return std::nullopt;
  return DevShmSpace{.total_nbytes = std::uint64_t{space.f_blocks} * space.f_frsize,
                     .free_nbytes = std::uint64_t{space.f_bavail} * space.f_frsize,
                     .free_names = space.f_files == 0 ? UINT64_MAX : space.f_favail};
}

std::optional<MachineMemory> read_machine(const std::string& root) {
  const auto text = system_file::read(root + "/proc/meminfo");
  if (!text) return std::nullopt;
  const auto total = system_file::find_number(*text, "MemTotal:");
  const auto available = system_file::find_number(*text, "MemAvailable:");
  if (!total || !available) return std::nullopt;
  MachineMemory machine{.total = *total,
                        .available = *available,
                        .swap_free = system_file::find_number(*text, "SwapFree:").value_or(0)};
  if (system_file::read_number(root + "/proc/sys/vm/overcommit_memory") == 2) {
    machine.commit_limit = system_file::find_number(*text, "CommitLimit:");
    machine.committed = system_file::find_number(*text, "Committed_AS:").value_or(0);
  }
  return machine;
}

std::optional<std::uint64_t> limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Since Linux 6.2 the directory's size is their number, which costs no descriptor: there may be
// none left.
std::optional<std::uint64_t> count_descriptors(const std::string& root) {
  const std::string path = root + "/proc/self/fd";
  struct stat about {};
  if (root.empty() && ::stat(path.c_str(), &about) == 0 && about.st_size > 0)
    return static_cast<std::uint64_t>(about.st_size);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  if (directory == nullptr) return std::nullopt;
  std::uint64_t count = 0;
  while (const dirent* entry = ::readdir(directory.get()))
    if (entry->d_name[0] != '.') ++count;
  // Its own is among them.
  return root.empty() ? count - 1 : count;
}

Descriptors read_descriptors(const std::string& root) {
  Descriptors descriptors{.open = count_descriptors(root)};
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    descriptors.soft_limit = limit.rlim_cur;
    descriptors.hard_limit = limit.rlim_max;
  }
  return descriptors;
}

Mappings read_mappings(const std::string& root) {
  Mappings mappings{
      .limit = system_file::read_number(root + "/proc/sys/vm/max_map_count"),
      .used = system_file::count_lines(root + "/proc/self/maps"),
      .address_space_limit = limit_of(RLIMIT_AS),
  };
  const std::string statm = system_file::read(root + "/proc/self/statm").value_or("");
  std::string_view words = statm;
  const auto pages = system_file::parse_number(system_file::take_word(words));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (pages && *pages <= UINT64_MAX / page) mappings.address_space_used = *pages * page;
  return mappings;
}

}  // namespace

Budget read_byte_budget(const std::string& root, std::uint64_t enough) {
  return {.dev_shm = read_dev_shm(root),
          .cgroup = read_cgroup_memory(root, enough),
          .machine = read_machine(root),
          .file_size_limit = limit_of(RLIMIT_FSIZE)};
}

Budget read_budget(const std::string& root) {
  Budget budget = read_byte_budget(root);
  budget.descriptors = read_descriptors(root);
  budget.mappings = read_mappings(root);
  return budget;
}

}  // namespace shoal
