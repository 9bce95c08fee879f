#include "shoal/runtime/shm/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/random.h"
#include "support/fake_system.h"
#include "support/mutate.h"

namespace shoal {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kNoLimitV1 = "9223372036854771712\n";

std::string mount_line(std::string_view cgroup, std::string_view path, bool v2 = true) {
  return concat("30 22 0:27 ", cgroup, ' ', path, " rw,relatime shared:9 - ",
                v2 ? "cgroup2 cgroup2 rw\n" : "cgroup cgroup rw,memory\n");
}

class Cgroup : public testing::Test {
 protected:
  // A process in `cgroup` (version 2) on a machine that mounts all of it.
  void v2(std::string_view cgroup) {
    system_.put("/proc/self/cgroup", concat("0::", cgroup, '\n'));
    system_.put("/proc/self/mountinfo",
                "22 1 259:1 / / rw - ext4 /dev/root rw\n" + mount_line("/", "/sys/fs/cgroup"));
  }
  // One of version 1, on a machine that also has version 2 for other controllers.
  void v1(std::string_view cgroup) {
    system_.put("/proc/self/cgroup",
                concat("9:name=systemd:/\n4:cpu,memory:", cgroup, "\n1:cpuset:/x\n0::/\n"));
    system_.put("/proc/self/mountinfo",
                concat("32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpuset\n",
                       mount_line("/", "/sys/fs/cgroup/memory", false),
                       mount_line("/", "/sys/fs/cgroup/unified")));
  }
  void level_v2(const std::string& path, std::string_view limit, std::uint64_t usage,
                std::uint64_t cache = 0) {
    system_.put(path + "/memory.max", concat(limit, '\n'));
    system_.put(path + "/memory.current", concat(usage, '\n'));
    system_.put(path + "/memory.stat", concat("anon 1\nfile 99\ninactive_file ", cache / 2,
                                              "\nactive_file ", cache - cache / 2, '\n'));
  }
  void level_v1(const std::string& path, std::string_view limit, std::uint64_t usage,
                std::uint64_t cache = 0) {
    system_.put(path + "/memory.limit_in_bytes", limit);
    system_.put(path + "/memory.usage_in_bytes", concat(usage, '\n'));
    system_.put(path + "/memory.stat",
                concat("inactive_file 7\nactive_file 7\ntotal_inactive_file ", cache,
                       "\ntotal_active_file 0\n"));
  }
  void swap_free(std::uint64_t nbytes) {
    system_.put("/proc/meminfo", concat("SwapFree: ", nbytes / 1024, " kB\n"));
  }
  [[nodiscard]] std::optional<CgroupMemory> read(std::uint64_t enough = UINT64_MAX) const {
    return read_cgroup_memory(system_.root(), enough);
  }
  void expect_free(std::uint64_t nbytes, std::string_view file) const {
    const auto memory = read();
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->free(), nbytes);
    EXPECT_EQ(memory->file, file);
  }
  [[nodiscard]] std::vector<std::string> paths() const {
    std::vector<std::string> paths;
    for (const CgroupDirectory& level : find_cgroups("memory", system_.root()))
      paths.push_back(level.path);
    return paths;
  }

  test::FakeSystem system_;
};

using Paths = std::vector<std::string>;

TEST_F(Cgroup, OfAContainerIsItsOwnRoot) {
  v2("/");
  level_v2("/sys/fs/cgroup", concat(1024 * kMiB), 400 * kMiB);
  expect_free(624 * kMiB, "/sys/fs/cgroup/memory.max");
}

TEST_F(Cgroup, LimitsByTheTightestOfItsAncestors) {
  v2("/jobs/mine/step");
  level_v2("/sys/fs/cgroup/jobs/mine/step", "max", 10 * kMiB);
  level_v2("/sys/fs/cgroup/jobs/mine", concat(1000 * kMiB), 10 * kMiB);
  level_v2("/sys/fs/cgroup/jobs", concat(2000 * kMiB), 1900 * kMiB);
  EXPECT_EQ(paths(), (Paths{"/sys/fs/cgroup/jobs/mine/step", "/sys/fs/cgroup/jobs/mine",
                            "/sys/fs/cgroup/jobs", "/sys/fs/cgroup"}));
  expect_free(100 * kMiB, "/sys/fs/cgroup/jobs/memory.max");
}

TEST_F(Cgroup, CountsPageCacheAsFree) {
  v2("/");
  level_v2("/sys/fs/cgroup", concat(1000 * kMiB), 999 * kMiB, 900 * kMiB);
  expect_free(901 * kMiB, "/sys/fs/cgroup/memory.max");
}

TEST_F(Cgroup, LooksForPageCacheOnlyIfItMatters) {
  v2("/");
  level_v2("/sys/fs/cgroup", concat(1000 * kMiB), 500 * kMiB, 100 * kMiB);
  EXPECT_EQ(read(500 * kMiB)->free(), 500 * kMiB);
  EXPECT_EQ(read(501 * kMiB)->free(), 600 * kMiB);
}

TEST_F(Cgroup, ThatIsOverItsLimitHasNothingFree) {
  v2("/");
  level_v2("/sys/fs/cgroup", concat(kMiB), 2 * kMiB);
  expect_free(0, "/sys/fs/cgroup/memory.max");
}

TEST_F(Cgroup, MayMoveMemoryToTheSwapItIsAllowed) {
  v2("/");
  level_v2("/sys/fs/cgroup", concat(100 * kMiB), 60 * kMiB);
  swap_free(50 * kMiB);
  expect_free(90 * kMiB, "/sys/fs/cgroup/memory.max");
  system_.put("/sys/fs/cgroup/memory.swap.max", "max\n");
  expect_free(90 * kMiB, "/sys/fs/cgroup/memory.max");
  system_.put("/sys/fs/cgroup/memory.swap.max", concat(30 * kMiB, '\n'));
  system_.put("/sys/fs/cgroup/memory.swap.current", concat(10 * kMiB, '\n'));
  expect_free(60 * kMiB, "/sys/fs/cgroup/memory.max");
  system_.put("/sys/fs/cgroup/memory.swap.max", "0\n");
  expect_free(40 * kMiB, "/sys/fs/cgroup/memory.max");
}

TEST_F(Cgroup, OfVersion1LimitsByTheTightestOfItsAncestors) {
  v1("/docker/1f");
  level_v1("/sys/fs/cgroup/memory", kNoLimitV1, 900 * kMiB);
  level_v1("/sys/fs/cgroup/memory/docker", concat(1000 * kMiB), 900 * kMiB, 300 * kMiB);
  level_v1("/sys/fs/cgroup/memory/docker/1f", concat(500 * kMiB), 100 * kMiB, 50 * kMiB);
  expect_free(400 * kMiB, "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes");
}

TEST_F(Cgroup, OfVersion1CountsMemoryAndSwapTogether) {
  v1("/a");
  level_v1("/sys/fs/cgroup/memory/a", concat(100 * kMiB), 80 * kMiB);
  swap_free(1000 * kMiB);
  system_.put("/sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", concat(150 * kMiB));
  system_.put("/sys/fs/cgroup/memory/a/memory.memsw.usage_in_bytes", concat(90 * kMiB));
  expect_free(60 * kMiB, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}

TEST_F(Cgroup, OfVersion1WithoutHierarchyIsNotLimitedByItsParent) {
  v1("/a/b");
  level_v1("/sys/fs/cgroup/memory/a", concat(kMiB), 0);
  level_v1("/sys/fs/cgroup/memory/a/b", concat(9 * kMiB), 0);
  expect_free(kMiB, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
  system_.put("/sys/fs/cgroup/memory/a/memory.use_hierarchy", "0\n");
  system_.put("/sys/fs/cgroup/memory/a/b/memory.use_hierarchy", "0\n");
  expect_free(9 * kMiB, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
}

TEST_F(Cgroup, OfAContainerWithTheHostsNamesLiesAtTheMount) {
  v1("/docker/1f");
  system_.put("/proc/self/mountinfo", mount_line("/docker/1f", "/sys/fs/cgroup/memory", false));
  EXPECT_EQ(paths(), (Paths{"/sys/fs/cgroup/memory"}));
  system_.put("/proc/self/cgroup", "4:memory:/docker/1f/init.scope\n");
  EXPECT_EQ(paths(), (Paths{"/sys/fs/cgroup/memory/init.scope", "/sys/fs/cgroup/memory"}));
}

TEST_F(Cgroup, IsLookedForInTheMountThatShowsMostOfIt) {
  system_.put("/proc/self/cgroup", "0::/pods/a/b\n");
  system_.put("/proc/self/mountinfo", mount_line("/pods/another", "/other") +
                                          mount_line("/", "/all") + mount_line("/pods/a", "/mine") +
                                          mount_line("/pods/a/bc", "/no"));
  EXPECT_EQ(paths(), (Paths{"/mine/b", "/mine"}));
}

TEST_F(Cgroup, ThatNoMountShowsIsTakenToBeTheFirstMountsRoot) {
  for (const char* cgroup : {"/", "/../elsewhere", "/a/../b", "/docker/1f"}) {
    v2(cgroup);
    system_.put("/proc/self/mountinfo", mount_line("/../../x", "/sys/fs/cgroup"));
    EXPECT_EQ(paths(), (Paths{"/sys/fs/cgroup"})) << cgroup;
  }
  v2("/../elsewhere");
  EXPECT_EQ(paths(), (Paths{"/sys/fs/cgroup"})) << "and never a path that climbs";
}

TEST_F(Cgroup, MayBeMountedUnderANameWithBlanks) {
  system_.put("/proc/self/cgroup", "0::/\n");
  system_.put("/proc/self/mountinfo", mount_line("/", "/mnt/c\\040g\\134roup"));
  level_v2("/mnt/c g\\roup", concat(5 * kMiB), 0);
  expect_free(5 * kMiB, "/mnt/c g\\roup/memory.max");
}

TEST_F(Cgroup, WithoutFilesOrLimitsHasNoLimit) {
  EXPECT_EQ(read(), std::nullopt);
  v2("/a");
  EXPECT_EQ(read(), std::nullopt);
  level_v2("/sys/fs/cgroup/a", "max", 5);
  EXPECT_EQ(read(), std::nullopt);
  v1("/a");
  level_v1("/sys/fs/cgroup/memory/a", kNoLimitV1, 5);
  EXPECT_EQ(read(), std::nullopt);
}

TEST_F(Cgroup, WithNonsenseInItsFilesHasNoLimit) {
  v2("/");
  for (const char* limit : {"", "-1", "99999999999999999999999", "1e9", "max max", "\xff\xfe"}) {
    level_v2("/sys/fs/cgroup", limit, 5);
    EXPECT_EQ(read(), std::nullopt) << limit;
  }
  level_v2("/sys/fs/cgroup", concat(kMiB), 0);
  system_.put("/sys/fs/cgroup/memory.current", "unknown");
  EXPECT_EQ(read(), std::nullopt);
  for (const char* line : {"0::a/b", "0::", "0:", "0", ":::", "4:memory:x"}) {
    system_.put("/proc/self/cgroup", line);
    EXPECT_EQ(paths(), Paths{}) << line;
  }
}

// Each file in turn is damaged at random; whatever comes out, it comes out.
TEST_F(Cgroup, SurvivesAnyFile) {
  Generator random(7);
  const std::string v1_cgroup = "4:cpu,memory:/a/b\n0::/c\n";
  const std::string mounts =
      mount_line("/", "/sys/fs/cgroup/memory", false) + mount_line("/c\\040", "/sys/fs/cgroup");
  for (int round = 0; round < 300; ++round) {
    system_.put("/proc/self/cgroup", round % 2 != 0 ? mutate(v1_cgroup, random) : v1_cgroup);
    system_.put("/proc/self/mountinfo", round % 3 != 0 ? mutate(mounts, random) : mounts);
    level_v1("/sys/fs/cgroup/memory/a", mutate("104857600\n", random), 3 * kMiB);
    system_.put("/sys/fs/cgroup/memory/a/memory.stat",
                mutate("total_inactive_file 18446744073709551615\ntotal_active_file 5\n", random));
    if (const auto memory = read()) {
      EXPECT_LE(memory->free(), memory->limit);
    }
  }
}

}  // namespace
}  // namespace shoal
