#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tools/fake_manager.h"
#include "tools/operator.h"

// What `shm-manager doctor` says of this machine.
namespace shoal {
namespace {

class ShmManagerDoctor : public test::Operator {
 protected:
  // The exit code has to fit what was found.
  [[nodiscard]] nlohmann::json examine() const {
    const Ran ran = run({"doctor", "--json"});
    auto answer = nlohmann::json::parse(ran.out);
    int code = 0;
    for (const auto& finding : answer["findings"]) {
      if (finding["level"] == "problem" && code == 0) code = 1;
      if (finding["check"] == "leftovers" && finding["level"] != "ok") code = 4;
    }
    EXPECT_EQ(ran.code, code) << answer;
    EXPECT_EQ(ran.err, "");
    return answer;
  }
  static nlohmann::json finding_of(const nlohmann::json& answer, const std::string& check) {
    for (const auto& finding : answer["findings"])
      if (finding["check"] == check) return finding;
    ADD_FAILURE() << "no finding " << check << " in " << answer;
    return {};
  }
  void expect_finding(const std::string& check, const std::string& level,
                      const std::string& word) const {
    const auto finding = finding_of(examine(), check);
    EXPECT_EQ(finding["level"], level) << finding;
    EXPECT_NE(finding["text"].get<std::string>().find(word), std::string::npos) << finding;
    EXPECT_TRUE(level == "ok" || finding["remedy"].is_string()) << finding;
  }
};

TEST_F(ShmManagerDoctor, LooksAtEverythingOnce) {
  const auto answer = examine();
  std::vector<std::string> checks;
  for (const auto& finding : answer["findings"]) checks.push_back(finding["check"]);
  for (const char* check :
       {"shm_mount", "cgroup", "descriptors", "mappings", "logind", "leftovers", "manager"})
    EXPECT_EQ(std::ranges::count(checks, check), 1) << check;
  EXPECT_TRUE(answer["worst"].is_string());
}

TEST_F(ShmManagerDoctor, FindsWhatDeadProcessesLeft) {
  const Segment living(100, 1, SharingStrategy::file_system);
  expect_finding("leftovers", "ok", "");
  const std::string name = make_orphan();
  expect_finding("leftovers", "warning", name);
  const Ran ran = run({"doctor"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_NE(ran.out.find("-> shm-manager reap"), std::string::npos) << ran.out;
}

TEST_F(ShmManagerDoctor, FindsFilesThatOnlyLookLikeShoals) {
  plant("garbage", "x");
  expect_finding("unknown_files", "note", "segment-garbage (too short");
  const std::string name = prefix() + "\x1b[2J";
  ASSERT_GE(::close(::open(path_of(name).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600)), 0);
  adopt(name);
  const Ran ran = run({"doctor"});
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  EXPECT_NE(ran.out.find("2 files"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\\x1b[2J"), std::string::npos) << ran.out;
}

TEST_F(ShmManagerDoctor, LeavesSegmentsWithALongerPrefixAside) {
  const std::string shorter = prefix();
  shm_directory::set_name_prefix(shorter + "longer-");
  const std::string name = make_orphan();
  adopt(name);
  shm_directory::set_name_prefix(shorter);
  const auto answer = examine();
  EXPECT_EQ(finding_of(answer, "leftovers")["level"], "ok") << answer;
  for (const auto& finding : answer["findings"]) EXPECT_NE(finding["check"], "unknown_files");
}

TEST_F(ShmManagerDoctor, LooksForTheManager) {
  expect_finding("manager", "note", "SHOAL_MANAGER=off");
  {
    const test::Environment environment("SHOAL_MANAGER", "on");
    expect_finding("manager", "problem", "SHOAL_MANAGER");
  }
  const ScratchDirectory scratch;
  const std::string path = scratch.file("manager.sock");
  const test::Environment environment("SHOAL_MANAGER", path);
  expect_finding("manager", "note", path);
  write_file(path, "");
  expect_finding("manager", "note", "dead manager");
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"manager.sock"}) << "it changes nothing";
}

TEST_F(ShmManagerDoctor, TalksToTheManager) {
  {
    const test::FakeManager manager(test::FakeManager::with_clients({{.pid = 1}, {.pid = 2}}));
    expect_finding("manager", "ok", "clients: 2");
    expect_finding("manager_folder", "ok", manager.folder());
  }
  {
    const test::FakeManager silent([](const auto&) { return std::vector<std::byte>(); });
    expect_finding("manager", "problem", "does not answer");
    EXPECT_EQ(run({"doctor"}).code, 1);
  }
  const test::FakeManager newer([](const auto&) {
    auto bytes = manager::encode({.verb = manager::Verb::welcome, .pid = 1});
    bytes[4] = std::byte{99};
    return bytes;
  });
  const auto finding = finding_of(examine(), "manager");
  EXPECT_EQ(finding["level"], "problem");
  EXPECT_NE(finding["remedy"].get<std::string>().find("Restart the manager"), std::string::npos)
      << finding;
}

TEST_F(ShmManagerDoctor, FindsAFolderInWhichOthersCouldListen) {
  const ScratchDirectory scratch;
  const std::string folder = scratch.file("open");
  const test::Environment environment("SHOAL_MANAGER", folder + "/manager.sock");
  const auto answer = examine();
  for (const auto& finding : answer["findings"])
    EXPECT_NE(finding["check"], "manager_folder") << "a manager makes it";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  expect_finding("manager_folder", "ok", folder);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  expect_finding("manager_folder", "problem", "written to by others");
  ASSERT_EQ(::rmdir(folder.c_str()), 0);
  write_file(folder, "");
  expect_finding("manager_folder", "problem", "is no folder");
}

}  // namespace
}  // namespace shoal
