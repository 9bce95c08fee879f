#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/segment_pool.h"

namespace shoal {

// What one process has in memory, in bytes; only pages that it has touched.
struct ProcessMemory {
  std::uint64_t heap = 0;    // its own: heap, stacks, private copies of pages
  std::uint64_t shared = 0;  // shared memory of any kind, Shoal's or not
  std::uint64_t files = 0;   // programs, libraries and files, mapped
  // Of `shared` the part that is this process' when each page is divided among all who have it: the
  // sum over the processes counts each page once, where the sum of `shared` counts it in each.
  std::optional<std::uint64_t> shared_part{};
};

// Where memory goes and how much there is: what to look at, or to log, when it runs short. A tool
// that adds up processes as a whole sees shared memory in each of them; this keeps it apart.
struct MemoryReport {
  ProcessMemory process{};
  SegmentPoolStatistics pool{};  // what Shoal set aside, touched or not
  Budget budget{};

  // For people, a few aligned lines.
  friend std::ostream& operator<<(std::ostream& out, const MemoryReport& report);
};

// This process and its limits at this moment. Takes milliseconds where much is mapped. Never fails:
// what cannot be read is empty or 0. `root` as for read_budget.
[[nodiscard]] MemoryReport memory_report(const std::string& root = {});

}  // namespace shoal
