#include "shoal/runtime/shm/budget.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "shoal/runtime/base/fd.h"
#include "support/fake_system.h"
#include "support/in_child.h"

namespace shoal {
namespace {

TEST(Budget, KnowsTheMachineItRunsOn) {
  const Budget budget = read_budget();
  ASSERT_TRUE(budget.machine);
  EXPECT_GT(budget.machine->available, 0u);
  EXPECT_LE(budget.machine->available, budget.machine->total);
  ASSERT_TRUE(budget.dev_shm);
  EXPECT_LE(budget.dev_shm->free_nbytes, budget.dev_shm->total_nbytes);
  EXPECT_GE(budget.descriptors.hard_limit, budget.descriptors.soft_limit);
  EXPECT_GT(budget.mappings.limit.value_or(0), 100u);
  EXPECT_GT(budget.mappings.used.value_or(0), 5u);
  EXPECT_GT(budget.mappings.address_space_used.value_or(0), 1u << 20);
}

TEST(Budget, CountsOpenDescriptors) {
  const auto before = read_budget().descriptors.open;
  ASSERT_TRUE(before);
  const Fd one{::dup(STDERR_FILENO)}, two{::dup(STDERR_FILENO)};
  EXPECT_EQ(read_budget().descriptors.open, *before + 2);
}

TEST(Budget, CountsMappings) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t kPages = 2000;
  const auto before = read_budget().mappings;
  void* region =
      ::mmap(nullptr, kPages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(region, MAP_FAILED);
  // Neighbours that differ in what is allowed cannot be one mapping.
  for (std::size_t i = 0; i < kPages; i += 2)
    ASSERT_EQ(::mprotect(static_cast<char*>(region) + i * page, page, PROT_READ), 0);
  const auto after = read_budget().mappings;
  ASSERT_EQ(::munmap(region, kPages * page), 0);
  EXPECT_GE(*after.used, *before.used + kPages - 1);
  EXPECT_GE(*after.address_space_used, *before.address_space_used + kPages * page);
}

TEST(Budget, KnowsTheLimitsOfTheProcess) {
  EXPECT_EQ(in_child([] {
              const rlimit files{64, 64}, size{1 << 20, 1 << 20};
              ::setrlimit(RLIMIT_NOFILE, &files);
              ::setrlimit(RLIMIT_FSIZE, &size);
              const Budget budget = read_budget();
              return budget.descriptors.soft_limit == 64 && budget.descriptors.hard_limit == 64 &&
                             budget.file_size_limit == 1u << 20
                         ? 0
                         : 1;
            }),
            0);
}

TEST(Budget, CountsDescriptorsEvenWhenNoneIsLeft) {
  EXPECT_EQ(in_child([] {
              const rlimit files{64, 64};
              ::setrlimit(RLIMIT_NOFILE, &files);
              while (::dup(STDERR_FILENO) >= 0) {
              }
              const auto open = read_budget().descriptors.open;
              // Linux before 6.2 cannot tell.
              return !open || *open >= 64 ? 0 : 1;
            }),
            0);
}

TEST(Budget, IsReadFromTheSystemsFiles) {
  test::FakeSystem system;
  std::filesystem::create_directories(system.root() + "/dev/shm");
  system.put("/proc/meminfo",
             "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapFree: 50 kB\n"
             "CommitLimit: 900 kB\nCommitted_AS: 800 kB\n");
  system.put("/proc/sys/vm/max_map_count", "65530\n");
  system.put("/proc/self/maps", "a\nb\nc\n");
  for (const char* fd : {"0", "1", "2", "17"}) system.put(std::string("/proc/self/fd/") + fd, "");
  Budget budget = read_budget(system.root());
  EXPECT_TRUE(budget.dev_shm);
  EXPECT_EQ(budget.cgroup, std::nullopt);
  ASSERT_TRUE(budget.machine);
  EXPECT_EQ(budget.machine->total, 1000u * 1024);
  EXPECT_EQ(budget.machine->available, 600u * 1024);
  EXPECT_EQ(budget.machine->swap_free, 50u * 1024);
  EXPECT_EQ(budget.machine->commit_limit, std::nullopt) << "holds only under strict overcommit";
  EXPECT_EQ(budget.mappings.limit, 65530u);
  EXPECT_EQ(budget.mappings.used, 3u);
  EXPECT_EQ(budget.descriptors.open, 4u);

  system.put("/proc/sys/vm/overcommit_memory", "2\n");
  budget = read_budget(system.root());
  EXPECT_EQ(budget.machine->commit_limit, 900u * 1024);
  EXPECT_EQ(budget.machine->committed, 800u * 1024);
}

TEST(Budget, OfASystemWithoutFilesKnowsNoLimits) {
  const test::FakeSystem system;
  const Budget budget = read_budget(system.root());
  EXPECT_FALSE(budget.dev_shm);
  EXPECT_FALSE(budget.cgroup);
  EXPECT_FALSE(budget.machine);
  EXPECT_FALSE(budget.mappings.limit);
  EXPECT_FALSE(budget.mappings.used);
  EXPECT_FALSE(budget.mappings.address_space_used);
  EXPECT_FALSE(budget.descriptors.open);
}

TEST(Budget, IgnoresNonsense) {
  test::FakeSystem system;
  system.put("/proc/meminfo", "MemTotal: lots kB\nMemAvailable: 99999999999999999999999 kB\n");
  system.put("/proc/sys/vm/max_map_count", "-5");
  system.put("/proc/self/statm", "18446744073709551615 0 0\n");
  const Budget budget = read_budget(system.root());
  EXPECT_FALSE(budget.machine);
  EXPECT_FALSE(budget.mappings.limit);
  EXPECT_FALSE(budget.mappings.address_space_used);
}

}  // namespace
}  // namespace shoal
