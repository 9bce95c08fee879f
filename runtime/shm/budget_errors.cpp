#include <cerrno>
#include <cstring>

#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/runtime/shm/system_file.h"

// The words for each limit that sharing can meet.
namespace shoal {
namespace {

using system_file::add;
using system_file::subtract;

struct Shortage {
  ErrorKind kind = ErrorKind::no_space;
  std::string reason{};  // goes on after "wanted …, "
  std::string remedy{};
};

Shortage dev_shm_shortage(const DevShmSpace& space) {
  return {.reason = concat("/dev/shm has ", ByteCount{space.free_nbytes}, " free of ",
                           ByteCount{space.total_nbytes}),
          .remedy =
              "Enlarge it with `mount -o remount,size=… /dev/shm` (a container: "
              "`--shm-size=…`), or use the file_descriptor strategy, which /dev/shm's size "
              "does not limit"};
}

Shortage names_shortage(const DevShmSpace& space) {
  return {.kind = ErrorKind::limit_reached,
          .reason = concat("/dev/shm has no file left, with ", ByteCount{space.free_nbytes},
                           " free of ", ByteCount{space.total_nbytes}),
          .remedy =
              "Remove files there, allow more with `mount -o remount,nr_inodes=… /dev/shm`, "
              "or use the file_descriptor strategy, which takes none"};
}

Shortage cgroup_shortage(const CgroupMemory& memory) {
  return {.reason = concat("the memory cgroup has ", ByteCount{memory.free()}, " free of ",
                           ByteCount{memory.limit}, " (", memory.file, ")"),
          .remedy = "Share less, or raise that limit (a container: `--memory=…`)"};
}

Shortage machine_shortage(const MachineMemory& machine) {
  return {.reason = concat("the machine has ", ByteCount{add(machine.available, machine.swap_free)},
                           " free of ", ByteCount{machine.total}, ", with swap"),
          .remedy =
              "Share less, or end what else takes memory: the kernel would kill a process to "
              "make room"};
}

Shortage commit_shortage(const MachineMemory& machine) {
  return {
      .reason = concat("the machine may promise ",
                       ByteCount{subtract(*machine.commit_limit, machine.committed)}, " more of ",
                       ByteCount{*machine.commit_limit}, " (vm.overcommit_memory=2)"),
      .remedy = "Raise `sysctl vm.overcommit_ratio`, or add swap"};
}

Shortage file_size_shortage(std::uint64_t limit) {
  return {.kind = ErrorKind::limit_reached,
          .reason = concat("this process may write files of ", ByteCount{limit},
                           ", and shared memory counts as a file"),
          .remedy = "Raise the limit with `ulimit -f` (a container: `--ulimit fsize=…`)"};
}

Shortage descriptor_shortage(const Descriptors& descriptors) {
  std::string remedy =
      descriptors.soft_limit < descriptors.hard_limit
          ? concat("Raise the limit with `ulimit -n`, here up to ", descriptors.hard_limit)
          : std::string("Raise the hard limit of open files, `ulimit -Hn`");
  remedy +=
      " (a container: `--ulimit nofile=…`), or hold fewer large tensors, each of which takes one "
      "or "
      "two";
  return {.kind = ErrorKind::limit_reached,
          .reason = concat("all ", descriptors.soft_limit,
                           " descriptors that this process may open are taken"),
          .remedy = std::move(remedy)};
}

Shortage open_files_shortage() {
  return {.kind = ErrorKind::limit_reached,
          .reason = "the machine has as many open files as it may",
          .remedy = "Raise `sysctl fs.file-max`, or end what holds them"};
}

// Empty unless mappings or addresses are what mmap lacks.
std::optional<Shortage> find_mapping_shortage(const Mappings& mappings, std::size_t nbytes) {
  // Some may have been given back since the failure, by other threads or on the way here.
  constexpr std::uint64_t kNearly = 16;
  if (mappings.limit && mappings.used && add(*mappings.used, kNearly) >= *mappings.limit) {
    return Shortage{.kind = ErrorKind::limit_reached,
                    .reason = concat("this process has ", *mappings.used, " mappings of ",
                                     *mappings.limit, " (vm.max_map_count)"),
                    .remedy =
                        "Hold fewer segments, or raise it with `sysctl -w "
                        "vm.max_map_count=…` (for a container: on its host)"};
  }
  if (mappings.address_space_limit && mappings.address_space_used) {
    const std::uint64_t free =
        subtract(*mappings.address_space_limit, *mappings.address_space_used);
    if (nbytes > free) {
      return Shortage{.kind = ErrorKind::limit_reached,
                      .reason = concat("this process' address space has ", ByteCount{free},
                                       " free of ", ByteCount{*mappings.address_space_limit}),
                      .remedy = "Raise the limit with `ulimit -v`, or share less"};
    }
  }
  return std::nullopt;
}

// Of all limits that leave less than `nbytes`, the one that leaves least.
std::optional<Shortage> find_byte_shortage(const Budget& budget, std::size_t nbytes,
                                           SharingStrategy strategy) {
  std::optional<Shortage> worst;
  std::uint64_t least = nbytes;
  const auto consider = [&](std::uint64_t free, const auto& explain) {
    if (free >= least) return;
    least = free;
    worst = explain();
  };
  if (budget.dev_shm && strategy == SharingStrategy::file_system)
    consider(budget.dev_shm->free_nbytes, [&] { return dev_shm_shortage(*budget.dev_shm); });
  if (budget.cgroup)
    consider(budget.cgroup->free(), [&] { return cgroup_shortage(*budget.cgroup); });
  if (const auto& machine = budget.machine) {
    consider(add(machine->available, machine->swap_free),
             [&] { return machine_shortage(*machine); });
    if (machine->commit_limit)
      consider(subtract(*machine->commit_limit, machine->committed),
               [&] { return commit_shortage(*machine); });
  }
  if (budget.file_size_limit)
    consider(*budget.file_size_limit, [&] { return file_size_shortage(*budget.file_size_limit); });
  return worst;
}

Shortage shortage_after(const Budget& budget, std::string_view call, int errno_value,
                        std::size_t nbytes, SharingStrategy strategy) {
  const bool named = strategy == SharingStrategy::file_system;
  switch (errno_value) {
    case EMFILE:
      return descriptor_shortage(budget.descriptors);
    case ENFILE:
      return open_files_shortage();
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EFBIG:
      break;
    default: {
      const char* what = ::strerrordesc_np(errno_value);
      return {.kind = ErrorKind::system, .reason = what != nullptr ? what : "unknown error"};
    }
  }
  if (errno_value == ENOMEM && call == "mmap") {
    if (auto shortage = find_mapping_shortage(budget.mappings, nbytes)) return *shortage;
  }
  if (errno_value == ENOSPC && named && budget.dev_shm && budget.dev_shm->free_names == 0)
    return names_shortage(*budget.dev_shm);
  if (auto shortage = find_byte_shortage(budget, nbytes, strategy)) return *shortage;
  // By now there would be enough, or what was met cannot be seen from here.
  if (errno_value == EFBIG) return {.reason = "no file may be that large", .remedy = "Share less"};
  if (errno_value == EDQUOT)
    return {.reason = "this user's quota is used up", .remedy = "Raise it, or share less"};
  if (errno_value == ENOSPC && named && budget.dev_shm) return dev_shm_shortage(*budget.dev_shm);
  return {.reason = "the system's or the cgroup's memory is used up",
          .remedy = "Share less, or raise the memory limit (a container: `--memory=…`)"};
}

Error make_error(Shortage shortage, std::string_view call, int errno_value, std::size_t nbytes,
                 SharingStrategy strategy) {
  std::string reason = concat("wanted ", ByteCount{nbytes}, ", ", shortage.reason);
  if (errno_value != 0) {
    const char* name = ::strerrorname_np(errno_value);
    reason += concat(" (", name != nullptr ? name : "?", ')');
  }
  return Error({.kind = shortage.kind,
                .call = std::string(call),
                .subject = concat("a shared segment, strategy ", to_string(strategy)),
                .reason = std::move(reason),
                .remedy = std::move(shortage.remedy),
                .errno_value = errno_value});
}

}  // namespace

std::optional<Error> find_shortage(const Budget& budget, std::size_t nbytes,
                                   SharingStrategy strategy) {
  auto shortage = find_byte_shortage(budget, nbytes, strategy);
  if (!shortage) return std::nullopt;
  return make_error(*std::move(shortage), "check_budget", 0, nbytes, strategy);
}

Error explain_full(const Budget& budget, std::string_view call, int errno_value, std::size_t nbytes,
                   SharingStrategy strategy) {
  return make_error(shortage_after(budget, call, errno_value, nbytes, strategy), call, errno_value,
                    nbytes, strategy);
}

Error explain_full(std::string_view call, int errno_value, std::size_t nbytes,
                   SharingStrategy strategy) {
  return explain_full(read_budget(), call, errno_value, nbytes, strategy);
}

}  // namespace shoal
