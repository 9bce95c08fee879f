#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

std::string count_of(const std::optional<std::uint64_t>& count) {
  return count ? concat(*count) : "unknown";
}

std::string limit_of(std::uint64_t limit) {
  return limit == UINT64_MAX ? "no limit" : concat(limit);
}

std::string describe(const std::optional<DevShmSpace>& space) {
  if (!space) return "unknown";
  return concat(ByteCount{space->free_nbytes}, " free of ", ByteCount{space->total_nbytes});
}

std::string describe(const std::optional<CgroupMemory>& memory) {
  if (!memory) return "no limit known";
  return concat(ByteCount{memory->free()}, " free of ", ByteCount{memory->limit}, " (",
                memory->file, ')');
}

std::string describe(const std::optional<MachineMemory>& machine) {
  if (!machine) return "unknown";
  std::string text = concat(ByteCount{machine->available}, " free of ", ByteCount{machine->total},
                            ", swap ", ByteCount{machine->swap_free}, " free");
  if (machine->commit_limit) {
    text += concat(", to promise ",
                   ByteCount{system_file::subtract(*machine->commit_limit, machine->committed)},
                   " of ", ByteCount{*machine->commit_limit});
  }
  return text;
}

std::string describe(const Descriptors& descriptors) {
  return concat(count_of(descriptors.open), " open of ", limit_of(descriptors.soft_limit),
                " (hard limit ", limit_of(descriptors.hard_limit), ')');
}

std::string describe(const Mappings& mappings) {
  std::string text = concat(count_of(mappings.used), " of ", count_of(mappings.limit));
  if (mappings.address_space_limit)
    text += concat(", addresses limited to ", ByteCount{*mappings.address_space_limit});
  return text;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Budget& budget) {
  // Put together as strings, so that the caller's stream keeps its format.
  out << "/dev/shm         " << describe(budget.dev_shm) << "\nmemory cgroup    "
      << describe(budget.cgroup) << "\nmachine          " << describe(budget.machine);
  if (budget.file_size_limit)
    out << "\nlargest file     " << concat(ByteCount{*budget.file_size_limit});
  return out << "\ndescriptors      " << describe(budget.descriptors) << "\nmappings         "
             << describe(budget.mappings) << '\n';
}

}  // namespace shoal
