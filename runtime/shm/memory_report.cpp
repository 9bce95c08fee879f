#include "shoal/runtime/shm/memory_report.h"

#include "shoal/runtime/shm/byte_count.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

ProcessMemory read_process_memory(const std::string& root) {
  const std::string status = system_file::read(root + "/proc/self/status").value_or("");
  const auto number = [&](const char* key) {
    return system_file::find_number(status, key).value_or(0);
  };
  return {.heap = number("RssAnon:"),
          .shared = number("RssShmem:"),
          .files = number("RssFile:"),
          .shared_part = system_file::find_number(
              system_file::read(root + "/proc/self/smaps_rollup").value_or(""), "Pss_Shmem:")};
}

}  // namespace

MemoryReport memory_report(const std::string& root) {
  return {.process = read_process_memory(root),
          .pool = SegmentPool::instance().statistics(),
          .budget = read_budget(root)};
}

std::ostream& operator<<(std::ostream& out, const MemoryReport& report) {
  const ProcessMemory& process = report.process;
  out << "heap             " << concat(ByteCount{process.heap}) << "\nshared           "
      << concat(ByteCount{process.shared}) << " touched here";
  if (process.shared_part)
    out << concat(", ", ByteCount{*process.shared_part}, " when divided among its holders");
  const SegmentPoolStatistics& pool = report.pool;
  out << concat("\nshared by Shoal  ", ByteCount{pool.live_bytes}, " in ", pool.live_blocks,
                " blocks, ", ByteCount{pool.cached_bytes}, " unused, in ", pool.segments,
                " segments; ", ByteCount{pool.attached_bytes}, " in ", pool.attached_segments,
                " segments of others");
  return out << "\nmapped files     " << concat(ByteCount{process.files}) << '\n' << report.budget;
}

}  // namespace shoal
