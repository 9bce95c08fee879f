#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shoal/tools/shm_manager/reaping.h"
#include "support/in_child.h"
#include "tools/operator.h"

// What `shm-manager reap` removes and what it leaves.
namespace shoal {
namespace {

using test::shm_name_exists;

constexpr auto kNamed = SharingStrategy::file_system;
constexpr uid_t kNobody = 65534;

class ShmManagerReap : public test::Operator {};

TEST_F(ShmManagerReap, RemovesWhatDeadProcessesLeftAndNothingElse) {
  const Segment living(100, 1, kNamed);
  const std::string first = make_orphan(), second = make_orphan(100'000);
  const std::string garbage = plant("garbage", std::string(5000, 'x'));
  const std::string link = plant_link("link", path_of(first));
  const std::string fifo = plant_fifo("fifo");
  const auto answer = run_json({"reap"});
  for (const std::string& name : {first, second}) {
    EXPECT_FALSE(shm_name_exists(name));
    const auto told = segment_of(answer, name);
    EXPECT_EQ(told["outcome"], "removed");
    EXPECT_EQ(told["reason"], nullptr);
  }
  EXPECT_EQ(segment_of(answer, living.name())["outcome"], "live");
  for (const std::string& name : {living.name(), garbage, link, fifo}) {
    struct stat about {};
    EXPECT_EQ(::lstat(path_of(name).c_str(), &about), 0) << name << " should have stayed";
  }
  for (const std::string& name : {garbage, link, fifo}) {
    const auto told = segment_of(answer, name);
    EXPECT_EQ(told["outcome"], "unknown");
    EXPECT_TRUE(told["reason"].is_string()) << told;
  }
  EXPECT_EQ(answer["prefix"], prefix());
  EXPECT_EQ(answer["dry_run"], false);
  const std::uint64_t bytes = segment_of(answer, first)["resident_bytes"].get<std::uint64_t>() +
                              segment_of(answer, second)["resident_bytes"].get<std::uint64_t>();
  EXPECT_EQ(answer["totals"], (nlohmann::json{{"removed", 2},
                                              {"would_remove", 0},
                                              {"failed", 0},
                                              {"live", 1},
                                              {"foreign", 0},
                                              {"unknown", 3},
                                              {"gone", 0},
                                              {"removed_bytes", bytes}}));
  EXPECT_EQ(run_json({"reap"})["totals"]["removed"], 0);
}

TEST_F(ShmManagerReap, OnlySaysSoInADryRun) {
  const Segment living(100, 1, kNamed);
  EXPECT_EQ(run({"reap", "--dry-run"}).code, 0);
  const std::string name = make_orphan();
  const auto answer = run_json({"reap", "--dry-run"}, 4);
  EXPECT_EQ(answer["dry_run"], true);
  EXPECT_EQ(segment_of(answer, name)["outcome"], "would_remove");
  EXPECT_EQ(answer["totals"]["removed_bytes"], 0);
  const Ran ran = run({"reap", "--dry-run"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_EQ(ran.out.find("would remove " + name + ","), 0u) << ran.out;
  EXPECT_TRUE(shm_name_exists(name));
  EXPECT_EQ(run({"reap"}).code, 0);
  EXPECT_FALSE(shm_name_exists(name));
}

TEST_F(ShmManagerReap, TellsPeopleWhatItDid) {
  const Segment living(100, 1, kNamed);
  pid_t creator = 0;
  const std::string orphan = make_orphan(100, &creator);
  plant("\x1b[31mred", "x");
  const Ran ran = run({"reap"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  const std::string left = "left " + prefix() + "segment-\\x1b[31mred: unknown, too short";
  for (const std::string& words :
       {"removed " + orphan + ", ", concat("process ", creator), left, std::string("Removed: 1, "),
        std::string("1 live"), std::string("1 unknown")})
    EXPECT_NE(ran.out.find(words), std::string::npos) << words << " is missing in\n" << ran.out;
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos) << testing::PrintToString(ran.out);
}

TEST_F(ShmManagerReap, LeavesNamesWithAnotherPrefix) {
  const std::string name = make_orphan();
  Program program({SHM_MANAGER, "reap", "--prefix", prefix() + "x"});
  EXPECT_EQ(program.wait(in_seconds(test::kOperatorSoon)), 0);
  EXPECT_TRUE(shm_name_exists(name));
}

TEST_F(ShmManagerReap, KeepsWhatOnlyAMessageOnItsWayHolds) {
  const auto [ours, theirs] = make_socket_pair();
  const std::uint32_t block = 0;
  std::string name;
  {
    Segment segment(100, 1, kNamed);
    name = segment.name();
    const auto flight = segment.depart(std::span(&block, 1));
    const int fd = flight->memory.get();
    (void)send_packet(ours.get(), std::as_bytes(std::span(name)), std::span(&fd, 1), kForever);
    segment.close_flight();
  }
  EXPECT_EQ(segment_of(run_json({"reap"}), name)["outcome"], "live");
  EXPECT_TRUE(shm_name_exists(name));
}

// The program as another user, without root's rights.
class ShmManagerReapAsNobody : public ShmManagerReap {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  }
  // Of the only segment there is.
  [[nodiscard]] tools::Fate reap_as_nobody(bool dry_run) const {
    return static_cast<tools::Fate>(in_child([&] {
      if (::setresuid(kNobody, kNobody, kNobody) != 0) return 98;
      const auto all = tools::reap_segments(prefix(), dry_run);
      return all.size() == 1 ? static_cast<int>(all[0].fate) : 97;
    }));
  }
};

TEST_F(ShmManagerReapAsNobody, LeavesTheSegmentsOfOthers) {
  const std::string name = make_orphan();
  EXPECT_EQ(reap_as_nobody(false), tools::Fate::foreign) << "it cannot even look";
  EXPECT_TRUE(shm_name_exists(name));
  // One that it may look into, and knows to be orphaned.
  ASSERT_EQ(::chmod(path_of(name).c_str(), 0666), 0);
  EXPECT_EQ(reap_as_nobody(true), tools::Fate::failed);
  EXPECT_EQ(reap_as_nobody(false), tools::Fate::failed);
  EXPECT_TRUE(shm_name_exists(name));
}

TEST_F(ShmManagerReapAsNobody, RemovesItsOwn) {
  const std::string name = make_orphan();
  ASSERT_EQ(::chown(path_of(name).c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(reap_as_nobody(true), tools::Fate::would_remove);
  EXPECT_EQ(reap_as_nobody(false), tools::Fate::removed);
  EXPECT_FALSE(shm_name_exists(name));
}

TEST_F(ShmManagerReapAsNobody, AndRootRemovesAnybodys) {
  const std::string name = make_orphan();
  ASSERT_EQ(::chown(path_of(name).c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(run({"reap"}).code, 0);
  EXPECT_FALSE(shm_name_exists(name));
}

}  // namespace
}  // namespace shoal
