#include "shoal/tools/shm_manager/checkup.h"

#include <gtest/gtest.h>

#include "shoal/runtime/base/error.h"
#include "shoal/tools/shm_manager/logind_config.h"
#include "support/fake_system.h"

// doctor's checks on machines made up for the purpose.
namespace shoal::tools {
namespace {

constexpr std::uint64_t kGiB = 1 << 30;

Finding finding_of(const Findings& findings, const std::string& check) {
  for (const Finding& finding : findings)
    if (finding.check == check) return finding;
  ADD_FAILURE() << "no finding " << check;
  return {};
}

bool has(const Finding& finding, const std::string& words) {
  return finding.text.find(words) != std::string::npos ||
         finding.remedy.find(words) != std::string::npos;
}

Budget machine_of(std::uint64_t shm, std::uint64_t free, std::uint64_t memory) {
  return {.dev_shm = DevShmSpace{.total_nbytes = shm, .free_nbytes = free},
          .machine = MachineMemory{.total = memory}};
}

class Checkup : public testing::Test {
 protected:
  Checkup() { system_.put("/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n"); }
  test::FakeSystem system_;
};

TEST_F(Checkup, WantsATmpfsAtDevShm) {
  const auto level = [&] { return finding_of(check_shm({}, system_.root()), "shm_mount").level; };
  EXPECT_EQ(level(), Level::ok);
  system_.put(
      "/proc/self/mounts",
      "proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/sda1 /dev/shm ext4 rw 0 0\n"
      "tmpfs /dev/shm/inside tmpfs rw 0 0\n");
  EXPECT_EQ(level(), Level::problem) << "the later mount hides the earlier";
  system_.put("/proc/self/mounts", "proc /proc proc rw 0 0\n");
  EXPECT_EQ(level(), Level::warning);
  const test::FakeSystem nothing;
  EXPECT_EQ(finding_of(check_shm({}, nothing.root()), "shm_mount").level, Level::warning);
}

TEST_F(Checkup, ComparesDevShmWithTheMemory) {
  const auto look = [&](std::uint64_t shm, std::uint64_t free, std::uint64_t memory) {
    return check_shm(machine_of(shm, free, memory), system_.root());
  };
  EXPECT_EQ(finding_of(look(8 * kGiB, kGiB, 16 * kGiB), "shm_size").level, Level::ok);
  const Finding small = finding_of(look(kGiB / 16, kGiB / 16, 16 * kGiB), "shm_size");
  EXPECT_EQ(small.level, Level::note);
  EXPECT_TRUE(has(small, "64 MiB") && has(small, "remount") && has(small, "--shm-size"));
  EXPECT_EQ(finding_of(look(32 * kGiB, kGiB, 16 * kGiB), "shm_size").level, Level::note);
  EXPECT_EQ(finding_of(look(8 * kGiB, 8 * kGiB, 16 * kGiB), "shm_free").level, Level::ok);
  EXPECT_EQ(finding_of(look(8 * kGiB, kGiB / 2, 16 * kGiB), "shm_free").level, Level::warning);
  EXPECT_EQ(finding_of(look(8 * kGiB, 0, 16 * kGiB), "shm_free").level, Level::problem);
  Budget no_names = machine_of(kGiB, kGiB, kGiB);
  no_names.dev_shm->free_names = 0;
  EXPECT_EQ(finding_of(check_shm(no_names, system_.root()), "shm_free").level, Level::problem);
  EXPECT_EQ(finding_of(check_shm({}, system_.root()), "shm_size").level, Level::ok) << "no limit";
}

TEST_F(Checkup, WarnsOfACgroupThatKillsFirst) {
  Budget budget = machine_of(8 * kGiB, 8 * kGiB, 16 * kGiB);
  EXPECT_EQ(finding_of(check_cgroup(budget), "cgroup").level, Level::ok);
  budget.cgroup = CgroupMemory{.limit = 8 * kGiB, .file = "/sys/fs/cgroup/memory.max"};
  EXPECT_EQ(finding_of(check_cgroup(budget), "cgroup").level, Level::ok);
  budget.cgroup->limit = kGiB;
  const Finding finding = finding_of(check_cgroup(budget), "cgroup");
  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_TRUE(has(finding, "1 GiB") && has(finding, "8 GiB") && has(finding, "memory.max"));
}

TEST_F(Checkup, LooksAtTheLimitOfDescriptors) {
  const auto look = [](std::uint64_t soft, std::uint64_t hard) {
    return check_descriptors({.descriptors = {.soft_limit = soft, .hard_limit = hard}})[0];
  };
  EXPECT_EQ(look(1024, 524288).level, Level::ok) << "raised by the programs themselves";
  EXPECT_TRUE(has(look(1024, UINT64_MAX), "hard limit none"));
  EXPECT_EQ(look(1024, 1024).level, Level::warning);
}

TEST_F(Checkup, LooksAtTheMappingsOfWhoHoldsSegments) {
  const Budget budget{.mappings = {.limit = 65530}};
  SegmentReport segment{.name = "s", .state = SegmentState::live};
  segment.holders = {{.slot = 0, .pid = 41, .alive = true},
                     {.slot = 1, .pid = 42, .alive = true},
                     {.slot = 2, .pid = 43, .alive = false}};
  EXPECT_EQ(check_mappings(budget, {segment}, system_.root())[0].level, Level::ok);
  system_.put("/proc/41/maps", "a\nb\n");
  system_.put("/proc/42/maps", "a\nb\nc\n");
  system_.put("/proc/43/maps", "a\nb\nc\nd\n");
  const Finding few = check_mappings(budget, {segment}, system_.root())[0];
  EXPECT_EQ(few.level, Level::ok);
  EXPECT_TRUE(has(few, "process 42 has the most, 3")) << few.text;
  std::string many;
  for (int i = 0; i < 60'000; ++i) many += "x\n";
  system_.put("/proc/42/maps", many);
  EXPECT_EQ(check_mappings(budget, {segment}, system_.root())[0].level, Level::warning);
  EXPECT_EQ(check_mappings({.mappings = {.limit = 1000}}, {})[0].level, Level::note);
  EXPECT_EQ(check_mappings({}, {})[0].level, Level::note) << "not known";
}

TEST_F(Checkup, KnowsWhenLoggingOutRemovesSegments) {
  const Person ann{.uid = 1000, .name = "ann"};
  const auto level = [&](const Person& person) {
    return check_logind(person, system_.root())[0].level;
  };
  EXPECT_EQ(level(ann), Level::ok) << "without systemd";
  system_.put("/run/systemd/system/x", "");
  EXPECT_EQ(level(ann), Level::warning) << "yes is the default";
  EXPECT_EQ(level({.uid = 999, .name = "shoal"}), Level::ok) << "a system user";
  EXPECT_EQ(level({.uid = 0, .name = "root"}), Level::ok);
  system_.put("/etc/systemd/logind.conf", "[Login]\n#RemoveIPC=no\n");
  EXPECT_EQ(level(ann), Level::warning) << "a comment";
  for (const char* no : {"no", "No", "false", "0", "off"}) {
    system_.put("/etc/systemd/logind.conf", concat("[Login]\n RemoveIPC = ", no, " \n"));
    EXPECT_EQ(level(ann), Level::ok) << no;
  }
  system_.put("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n");
  const Finding finding = check_logind(ann, system_.root())[0];
  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_TRUE(has(finding, "/etc/systemd/logind.conf") && has(finding, "RemoveIPC=no") &&
              has(finding, "enable-linger ann") && has(finding, "file_descriptor"))
      << finding.text << finding.remedy;
  system_.put("/var/lib/systemd/linger/ann", "");
  EXPECT_EQ(level(ann), Level::ok) << "a user who lingers";
  EXPECT_EQ(level({.uid = 1001, .name = "bob"}), Level::warning);
}

TEST_F(Checkup, ReadsLogindsConfigurationAsLogindDoes) {
  const auto setting = [&] { return read_logind_setting("RemoveIPC", system_.root()); };
  const auto expect = [&](const std::string& value, const std::string& file) {
    const auto found = setting();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->value, value);
    EXPECT_EQ(found->file, file);
  };
  EXPECT_FALSE(setting());
  system_.put("/etc/systemd/logind.conf", "RemoveIPC=1\n[Sleep]\nRemoveIPC=2\n[Login]\nOther=3\n");
  EXPECT_FALSE(setting()) << "another section";
  system_.put("/etc/systemd/logind.conf", "[Login]\nRemoveIPC=4\nRemoveIPC=5");
  expect("5", "/etc/systemd/logind.conf");
  system_.put("/usr/lib/systemd/logind.conf.d/50-vendor.conf", "[Login]\nRemoveIPC=6\n");
  expect("6", "/usr/lib/systemd/logind.conf.d/50-vendor.conf");
  system_.put("/run/systemd/logind.conf.d/40-early.conf", "[Login]\nRemoveIPC=7\n");
  expect("6", "/usr/lib/systemd/logind.conf.d/50-vendor.conf");
  system_.put("/run/systemd/logind.conf.d/50-vendor.conf", "[Login]\nRemoveIPC=8\n");
  expect("8", "/run/systemd/logind.conf.d/50-vendor.conf");
  system_.put("/etc/systemd/logind.conf.d/50-vendor.conf", "");
  expect("7", "/run/systemd/logind.conf.d/40-early.conf");
  system_.put("/etc/systemd/logind.conf.d/90-last.conf.bak", "[Login]\nRemoveIPC=9\n");
  expect("7", "/run/systemd/logind.conf.d/40-early.conf");
}

TEST_F(Checkup, CountsLeftoversAndNamesSome) {
  std::vector<SegmentReport> segments;
  for (int i = 0; i < 5; ++i)
    segments.push_back({.name = concat("s", i), .state = SegmentState::orphaned});
  const Finding finding = finding_of(check_leftovers(segments, {}), "leftovers");
  EXPECT_EQ(finding.level, Level::warning);
  EXPECT_TRUE(has(finding, "5 segments")) << finding.text;
  EXPECT_TRUE(has(finding, "s0, s1, s2, ...")) << finding.text;
  EXPECT_EQ(check_leftovers({}, {}).size(), 1u);
}

}  // namespace
}  // namespace shoal::tools
