#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "support/in_child.h"
#include "support/small_shm.h"

// The words in which a lack of something is told.
namespace shoal {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr auto kByDescriptor = SharingStrategy::file_descriptor;
constexpr auto kByName = SharingStrategy::file_system;

testing::AssertionResult says(const Error& error, ErrorKind kind,
                              std::initializer_list<std::string_view> words) {
  const std::string_view text = error.what();
  if (error.kind() != kind) return testing::AssertionFailure() << to_string(error.kind()) << text;
  for (const std::string_view word : words)
    if (text.find(word) == std::string_view::npos)
      return testing::AssertionFailure() << '"' << word << "\" is missing in: " << text;
  return testing::AssertionSuccess();
}

// A machine with plenty of everything.
Budget rich() {
  Budget budget;
  budget.dev_shm = {.total_nbytes = 1000 * kMiB, .free_nbytes = 900 * kMiB};
  budget.cgroup = {.limit = 1000 * kMiB,
                   .used = 100 * kMiB,
                   .limit_with_swap = 1000 * kMiB,
                   .file = "/sys/fs/cgroup/memory.max"};
  budget.machine = {.total = 2000 * kMiB, .available = 1000 * kMiB, .swap_free = 100 * kMiB};
  budget.descriptors = {.soft_limit = 1024, .hard_limit = 4096, .open = 10};
  budget.mappings = {.limit = 65530, .used = 100};
  return budget;
}

TEST(Shortage, IsNoneWhileThereIsEnough) {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    EXPECT_FALSE(find_shortage(rich(), 900 * kMiB, strategy));
    EXPECT_FALSE(find_shortage(Budget{}, std::numeric_limits<std::size_t>::max(), strategy))
        << "nothing is known";
  }
}

TEST(Shortage, OfDevShmConcernsOnlyNamedSegments) {
  Budget budget = rich();
  budget.dev_shm = {.total_nbytes = 64 * kMiB, .free_nbytes = kMiB};
  EXPECT_FALSE(find_shortage(budget, 2 * kMiB, kByDescriptor));
  const auto error = find_shortage(budget, 2 * kMiB, kByName);
  ASSERT_TRUE(error);
  EXPECT_TRUE(says(*error, ErrorKind::no_space,
                   {"file_system", "wanted 2 MiB, /dev/shm has 1 MiB free of 64 MiB", "remount",
                    "--shm-size", "file_descriptor"}));
}

TEST(Shortage, OfTheCgroupNamesItsFileAndTheContainersFlag) {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    Budget budget = rich();
    budget.cgroup->used = 990 * kMiB;
    EXPECT_FALSE(find_shortage(budget, 10 * kMiB, strategy));
    const auto error = find_shortage(budget, 10 * kMiB + 1, strategy);
    ASSERT_TRUE(error);
    EXPECT_TRUE(says(
        *error, ErrorKind::no_space,
        {"wanted 10 MiB", "10 MiB free of 1000 MiB", "/sys/fs/cgroup/memory.max", "--memory"}));
  }
}

TEST(Shortage, OfTheMachineCountsSwapAsFree) {
  Budget budget = rich();
  budget.cgroup.reset();
  budget.machine->available = 50 * kMiB;
  EXPECT_FALSE(find_shortage(budget, 150 * kMiB, kByDescriptor));
  const auto error = find_shortage(budget, 151 * kMiB, kByDescriptor);
  ASSERT_TRUE(error);
  EXPECT_TRUE(says(*error, ErrorKind::no_space,
                   {"wanted 151 MiB", "the machine has 150 MiB free of 1.953 GiB"}));
}

TEST(Shortage, OfPromisesUnderStrictOvercommitNamesTheSwitch) {
  Budget budget = rich();
  budget.machine->commit_limit = 500 * kMiB;
  budget.machine->committed = 600 * kMiB;
  const auto error = find_shortage(budget, 1, kByDescriptor);
  ASSERT_TRUE(error);
  EXPECT_TRUE(says(*error, ErrorKind::no_space,
                   {"0 B more of 500 MiB", "vm.overcommit_memory=2", "vm.overcommit_ratio"}));
}

TEST(Shortage, OfFileSizeNamesUlimit) {
  Budget budget = rich();
  budget.file_size_limit = kMiB;
  const auto error = find_shortage(budget, 2 * kMiB, kByDescriptor);
  ASSERT_TRUE(error);
  EXPECT_TRUE(says(*error, ErrorKind::limit_reached, {"wanted 2 MiB", "1 MiB", "ulimit -f"}));
}

TEST(Shortage, IsToldOfTheLimitThatLeavesLeast) {
  Budget budget = rich();
  budget.dev_shm->free_nbytes = 20 * kMiB;
  budget.cgroup->used = 990 * kMiB;
  budget.machine->available = 30 * kMiB;
  budget.machine->swap_free = 0;
  EXPECT_TRUE(says(*find_shortage(budget, 100 * kMiB, kByName), ErrorKind::no_space, {"cgroup"}));
  budget.cgroup->used = 100 * kMiB;
  EXPECT_TRUE(says(*find_shortage(budget, 100 * kMiB, kByName), ErrorKind::no_space, {"/dev/shm"}));
}

TEST(ExplainFull, OfDescriptorsNamesBothLimitsAndTheWayOut) {
  EXPECT_TRUE(says(explain_full(rich(), "memfd_create", EMFILE, kMiB, kByDescriptor),
                   ErrorKind::limit_reached,
                   {"memfd_create", "wanted 1 MiB", "1024 descriptors", "EMFILE", "ulimit -n",
                    "up to 4096", "--ulimit nofile=", "fewer large tensors"}));
  Budget budget = rich();
  budget.descriptors.hard_limit = 1024;
  EXPECT_TRUE(says(explain_full(budget, "open", EMFILE, kMiB, kByName), ErrorKind::limit_reached,
                   {"1024", "hard limit", "nofile"}));
  EXPECT_TRUE(says(explain_full(rich(), "open", ENFILE, kMiB, kByName), ErrorKind::limit_reached,
                   {"machine", "fs.file-max", "ENFILE"}));
}

TEST(ExplainFull, OfMappingsNamesTheSysctl) {
  Budget budget = rich();
  budget.mappings.used = 65530;
  const Error error = explain_full(budget, "mmap", ENOMEM, kMiB, kByDescriptor);
  EXPECT_TRUE(
      says(error, ErrorKind::limit_reached,
           {"wanted 1 MiB", "65530 mappings of 65530", "sysctl -w vm.max_map_count=", "ENOMEM"}));
  EXPECT_EQ(error.errno_value(), ENOMEM);
  EXPECT_EQ(explain_full(budget, "fallocate", ENOMEM, kMiB, kByDescriptor).kind(),
            ErrorKind::no_space)
      << "which needs no mapping";
}

TEST(ExplainFull, OfAddressSpaceNamesUlimit) {
  Budget budget = rich();
  budget.mappings.address_space_limit = 100 * kMiB;
  budget.mappings.address_space_used = 90 * kMiB;
  EXPECT_TRUE(says(explain_full(budget, "mmap", ENOMEM, 11 * kMiB, kByName),
                   ErrorKind::limit_reached, {"10 MiB free of 100 MiB", "ulimit -v"}));
}

TEST(ExplainFull, OfNamesIsNotTakenForALackOfBytes) {
  Budget budget = rich();
  budget.dev_shm->free_names = 0;
  EXPECT_TRUE(says(explain_full(budget, "open", ENOSPC, 1, kByName), ErrorKind::limit_reached,
                   {"no file left", "nr_inodes", "ENOSPC"}));
}

TEST(ExplainFull, OfSpaceThatIsThereAgainStillNamesTheDirectory) {
  EXPECT_TRUE(says(explain_full(rich(), "fallocate", ENOSPC, kMiB, kByName), ErrorKind::no_space,
                   {"wanted 1 MiB", "/dev/shm has 900 MiB free", "--shm-size"}));
}

TEST(ExplainFull, HasAnAnswerWhenNothingIsKnown) {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    for (const char* call : {"memfd_create", "fallocate", "mmap"}) {
      for (const int number : {ENOSPC, ENOMEM, EFBIG, EDQUOT}) {
        const Error error = explain_full(Budget{}, call, number, SIZE_MAX, strategy);
        EXPECT_TRUE(says(error, ErrorKind::no_space, {"wanted 16 EiB"}));
        EXPECT_FALSE(error.remedy().empty());
      }
    }
  }
  EXPECT_TRUE(says(explain_full(Budget{}, "open", EACCES, 1, kByName), ErrorKind::system,
                   {"Permission denied", "EACCES"}));
  EXPECT_TRUE(says(explain_full(Budget{}, "open", 9999, 1, kByName), ErrorKind::system, {"?"}));
}

// The status of a child in which `action` throws an Error of `kind` with these words.
int child_told(const std::function<void()>& prepare, const std::function<void()>& action,
               ErrorKind kind, std::initializer_list<std::string_view> words) {
  return in_child([&] {
    prepare();
    try {
      action();
    } catch (const Error& error) {
      const auto result = says(error, kind, words);
      if (!result) std::fprintf(stderr, "%s\n", result.message());
      return result ? 0 : 1;
    }
    return 2;
  });
}

TEST(CheckBudget, LetsASmallSegmentPass) {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) check_budget(1, strategy);
}

TEST(CheckBudget, RefusesWhatNoMachineHas) {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    try {
      check_budget(std::numeric_limits<std::size_t>::max(), strategy);
      ADD_FAILURE() << "passed";
    } catch (const Error& error) {
      EXPECT_TRUE(says(error, ErrorKind::no_space, {"wanted 16 EiB", "free of"}));
      EXPECT_FALSE(error.remedy().empty());
    }
  }
}

TEST(CheckBudget, RefusesWhatTheKernelWouldKillFor) {
  EXPECT_EQ(child_told(
                [] {
                  const rlimit size{kMiB, kMiB};
                  ::setrlimit(RLIMIT_FSIZE, &size);
                },
                [] {
                  check_budget(kMiB, kByDescriptor);
                  check_budget(kMiB + 1, kByDescriptor);
                },
                ErrorKind::limit_reached, {"ulimit -f"}),
            0);
}

bool shrink_dev_shm() { return test::shrink_dev_shm("size=1m,nr_inodes=4"); }

class SmallDevShm : public testing::Test {
 protected:
  void SetUp() override {
    if (in_child([] { return shrink_dev_shm() ? 0 : 1; }) != 0)
      GTEST_SKIP() << "mount namespaces are not permitted here";
  }
};

TEST_F(SmallDevShm, IsNoticedBeforeASegmentIsMade) {
  EXPECT_EQ(child_told([] { (void)shrink_dev_shm(); },
                       [] {
                         check_budget(2 * kMiB, kByDescriptor);
                         check_budget(2 * kMiB, kByName);
                       },
                       ErrorKind::no_space, {"wanted 2 MiB", "1 MiB free of 1 MiB", "--shm-size"}),
            0);
}

TEST_F(SmallDevShm, IsNamedWhenItFailed) {
  EXPECT_EQ(child_told([] { (void)shrink_dev_shm(); },
                       [] {
                         const Fd file = shm_directory::create_unnamed();
                         if (::fallocate(file.get(), 0, 0, 2 * kMiB) != 0)
                           throw explain_full("fallocate", errno, 2 * kMiB, kByName);
                       },
                       ErrorKind::no_space, {"fallocate", "free of 1 MiB", "ENOSPC", "remount"}),
            0);
}

TEST_F(SmallDevShm, CanRunOutOfNames) {
  EXPECT_EQ(child_told([] { (void)shrink_dev_shm(); },
                       [] {
                         for (;;)
                           if (::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) < 0)
                             throw explain_full("open", errno, kMiB, kByName);
                       },
                       ErrorKind::limit_reached, {"no file left", "nr_inodes", "file_descriptor"}),
            0);
}

TEST(ExplainFull, WorksWithoutADescriptorLeft) {
  EXPECT_EQ(child_told(
                [] {
                  const rlimit files{40, 50};
                  ::setrlimit(RLIMIT_NOFILE, &files);
                  while (::dup(STDERR_FILENO) >= 0) {
                  }
                },
                [] {
                  check_budget(kMiB, kByDescriptor);
                  if (::memfd_create("test", MFD_CLOEXEC) < 0)
                    throw explain_full("memfd_create", errno, kMiB, kByDescriptor);
                },
                ErrorKind::limit_reached, {"all 40 descriptors", "ulimit -n", "up to 50"}),
            0);
}

TEST(ExplainFull, TellsAFullAddressSpaceFromAFullMemory) {
  EXPECT_EQ(child_told(
                [] {
                  const rlim_t limit = *read_budget().mappings.address_space_used + 64 * kMiB;
                  const rlimit addresses{limit, limit};
                  ::setrlimit(RLIMIT_AS, &addresses);
                },
                [] {
                  if (::mmap(nullptr, 100 * kMiB, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) ==
                      MAP_FAILED)
                    throw explain_full("mmap", errno, 100 * kMiB, kByDescriptor);
                },
                ErrorKind::limit_reached, {"wanted 100 MiB", "ulimit -v", "ENOMEM"}),
            0);
}

TEST(ExplainFull, TellsWhenMappingsAreUsedUp) {
  const auto limit = read_budget().mappings.limit;
  if (!limit || *limit > 300'000) GTEST_SKIP() << "more mappings than a test should make";
  EXPECT_EQ(child_told([] {},
                       [] {
                         // Neighbours that differ in what is allowed cannot be one mapping.
                         std::array<void*, 8> last{};
                         for (std::size_t i = 0;; ++i) {
                           void* page = ::mmap(nullptr, 1, i % 2 != 0 ? PROT_READ : PROT_NONE,
                                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
                           if (page == MAP_FAILED) break;
                           last[i % last.size()] = page;
                         }
                         const int failed = errno;
                         // A few are given back, as on the way out of a failure: a sanitizer's
                         // own allocator needs some.
                         for (void* page : last) ::munmap(page, 1);
                         throw explain_full("mmap", failed, 1, kByDescriptor);
                       },
                       ErrorKind::limit_reached, {"vm.max_map_count", "ENOMEM"}),
            0);
}

}  // namespace
}  // namespace shoal
