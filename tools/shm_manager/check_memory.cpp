#include <optional>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "shoal/runtime/shm/system_file.h"
#include "shoal/tools/shm_manager/checkup.h"

namespace shoal::tools {
namespace {

constexpr std::uint64_t kSmallShare = 4;   // of the machine's memory: less is a note
constexpr std::uint64_t kLittleLeft = 10;  // of the whole: less is a warning

constexpr const char* kEnlarge =
    "For more: mount -o remount,size=50% /dev/shm, for good by a line in /etc/fstab; for a "
    "container --shm-size";

// The type of what is mounted at /dev/shm; empty if nothing is.
std::optional<std::string> mounted_type(const std::string& root) {
  const std::string text = system_file::read(root + "/proc/self/mounts").value_or("");
  std::optional<std::string> type;  // of the last one, which hides those before
  for (std::string_view lines = text; !lines.empty();) {
    std::string_view line = system_file::take_line(lines);
    (void)system_file::take_word(line);
    const bool here = system_file::take_word(line) == shm_directory::kPath;
    if (here) type = system_file::take_word(line);
  }
  return type;
}

Finding check_mount(const std::string& root) {
  const auto type = mounted_type(root);
  if (!type)
    return {Level::warning, "shm_mount", "Nothing is mounted at /dev/shm, or it cannot be seen",
            "mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm"};
  if (*type != "tmpfs")
    return {Level::problem, "shm_mount", concat("/dev/shm is of type ", *type, " and not a tmpfs"),
            "mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm, or use the "
            "file_descriptor strategy, which needs none"};
  return {Level::ok, "shm_mount", "/dev/shm is a tmpfs", {}};
}

Finding check_size(const DevShmSpace& shm, const std::optional<MachineMemory>& machine) {
  if (!machine)
    return {Level::ok, "shm_size", concat("/dev/shm has ", ByteCount{shm.total_nbytes}), {}};
  const std::string text = concat("/dev/shm has ", ByteCount{shm.total_nbytes}, ", the machine ",
                                  ByteCount{machine->total}, " of memory");
  if (shm.total_nbytes < machine->total / kSmallShare)
    return {Level::note, "shm_size", text,
            concat("Named segments (file_system) are limited by the former, file_descriptor ones "
                   "by the latter. ",
                   kEnlarge)};
  if (shm.total_nbytes > machine->total)
    return {Level::note, "shm_size", text, "Memory ends before /dev/shm does"};
  return {Level::ok, "shm_size", text, {}};
}

Finding check_free(const DevShmSpace& shm) {
  const std::string text = concat(ByteCount{shm.free_nbytes}, " of /dev/shm's ",
                                  ByteCount{shm.total_nbytes}, " are free");
  if (shm.free_names == 0)
    return {Level::problem, "shm_free", "/dev/shm has no room for another name",
            "Remove files there, or mount -o remount,nr_inodes=0 /dev/shm"};
  if (shm.free_nbytes == 0)
    return {Level::problem, "shm_free", text, concat("shm-manager status says whose. ", kEnlarge)};
  if (shm.free_nbytes < shm.total_nbytes / kLittleLeft)
    return {Level::warning, "shm_free", text, concat("shm-manager status says whose. ", kEnlarge)};
  return {Level::ok, "shm_free", text, {}};
}

}  // namespace

Findings check_shm(const Budget& budget, const std::string& root) {
  Findings findings{check_mount(root)};
  if (!budget.dev_shm) {
    findings.push_back({Level::ok, "shm_size", "/dev/shm has no limit of its own", {}});
    return findings;
  }
  findings.push_back(check_size(*budget.dev_shm, budget.machine));
  findings.push_back(check_free(*budget.dev_shm));
  return findings;
}

Findings check_cgroup(const Budget& budget) {
  if (!budget.cgroup)
    return {{Level::ok, "cgroup", "No cgroup limits the memory of this process", {}}};
  const CgroupMemory& cgroup = *budget.cgroup;
  const std::string text = concat("The memory cgroup allows ", ByteCount{cgroup.limit}, ", ",
                                  ByteCount{cgroup.free()}, " of it free (", cgroup.file, ")");
  if (!budget.dev_shm || cgroup.limit >= budget.dev_shm->total_nbytes)
    return {{Level::ok, "cgroup", text, {}}};
  return {{Level::warning, "cgroup",
           concat(text, ", less than /dev/shm's ", ByteCount{budget.dev_shm->total_nbytes},
                  ": whoever fills that is killed by the kernel, not refused"),
           "Raise the limit (MemoryMax=, docker --memory), or make /dev/shm smaller than it"}};
}

}  // namespace shoal::tools
