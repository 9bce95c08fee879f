#include "shoal/runtime/shm/memory_report.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <sstream>

#include "support/fake_system.h"
#include "support/usage.h"

namespace shoal {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSize = 64 * kMiB;
// Other pages come and go, and the kernel counts in batches for each CPU.
constexpr std::size_t kSlack = 16 * kMiB;

void* map_anonymous(int flags) {
  void* region = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) throw std::bad_alloc();
  std::memset(region, 1, kSize);
  return region;
}

TEST(MemoryReport, KeepsSharedMemoryApartFromTheHeap) {
  const ProcessMemory before = memory_report().process;
  void* region = map_anonymous(MAP_SHARED);
  const ProcessMemory after = memory_report().process;
  ::munmap(region, kSize);
  EXPECT_GE(after.shared + kSlack, before.shared + kSize);
  // ThreadSanitizer keeps a record of each byte that is written, in private memory.
  if (!test::kSanitized) {
    EXPECT_LE(after.heap, before.heap + kSlack);
  }
  if (before.shared_part && after.shared_part) {
    EXPECT_GE(*after.shared_part + kSlack, *before.shared_part + kSize);
  }
}

TEST(MemoryReport, CountsPrivateMemoryAsHeap) {
  const ProcessMemory before = memory_report().process;
  void* region = map_anonymous(MAP_PRIVATE);
  const ProcessMemory after = memory_report().process;
  ::munmap(region, kSize);
  EXPECT_GE(after.heap + kSlack, before.heap + kSize);
  EXPECT_LE(after.shared, before.shared + kSlack);
}

TEST(MemoryReport, PrintsAFewAlignedLines) {
  MemoryReport report;
  report.process = {.heap = 3 * kMiB, .shared = 64 * kMiB, .files = kMiB, .shared_part = 32 * kMiB};
  report.pool = {.live_bytes = 2 * kMiB,
                 .cached_bytes = kMiB,
                 .live_blocks = 7,
                 .segments = 1,
                 .attached_segments = 2,
                 .attached_bytes = 5 * kMiB};
  report.budget.dev_shm = {.total_nbytes = 64 * kMiB, .free_nbytes = 63 * kMiB};
  report.budget.cgroup = {.limit = 1024 * kMiB,
                          .used = 512 * kMiB,
                          .limit_with_swap = 1024 * kMiB,
                          .file = "/sys/fs/cgroup/memory.max"};
  report.budget.machine = {.total = 2048 * kMiB, .available = 1024 * kMiB};
  report.budget.descriptors = {.soft_limit = 1024, .hard_limit = UINT64_MAX, .open = 12};
  report.budget.mappings = {.limit = 65530, .used = 45};
  std::ostringstream out;
  out << report;
  EXPECT_EQ(
      out.str(),
      "heap             3 MiB\n"
      "shared           64 MiB touched here, 32 MiB when divided among its holders\n"
      "shared by Shoal  2 MiB in 7 blocks, 1 MiB unused, in 1 segments; 5 MiB in 2 segments of "
      "others\n"
      "mapped files     1 MiB\n"
      "/dev/shm         63 MiB free of 64 MiB\n"
      "memory cgroup    512 MiB free of 1 GiB (/sys/fs/cgroup/memory.max)\n"
      "machine          1 GiB free of 2 GiB, swap 0 B free\n"
      "descriptors      12 open of 1024 (hard limit no limit)\n"
      "mappings         45 of 65530\n");
  EXPECT_EQ(out.precision(), 6) << "the stream's format is its owner's";
}

TEST(MemoryReport, OfASystemWithoutFilesIsEmptyAndPrintsAllTheSame) {
  const test::FakeSystem system;
  const MemoryReport report = memory_report(system.root());
  EXPECT_EQ(report.process.heap + report.process.shared + report.process.files, 0u);
  EXPECT_EQ(report.process.shared_part, std::nullopt);
  std::ostringstream out;
  out << report;
  EXPECT_NE(out.str().find("memory cgroup    no limit known"), std::string::npos) << out.str();
}

}  // namespace
}  // namespace shoal
