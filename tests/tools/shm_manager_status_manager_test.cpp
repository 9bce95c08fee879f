#include <gtest/gtest.h>

#include "tools/fake_manager.h"
#include "tools/operator.h"

// What `shm-manager status` says about the manager.
namespace shoal {
namespace {

using manager::Client;
using test::FakeManager;

class ShmManagerStatusOfManager : public test::Operator {};

TEST_F(ShmManagerStatusOfManager, TellsOfOneThatIsAbsentOrOff) {
  EXPECT_EQ(run_json({"status"})["manager"]["state"], "off");
  EXPECT_EQ(run({"status", "--require-manager"}).code, 3);
  const ScratchDirectory scratch;
  const test::Environment environment("SHOAL_MANAGER", scratch.file("manager.sock"));
  const auto told = run_json({"status"})["manager"];
  EXPECT_EQ(told["state"], "absent");
  EXPECT_EQ(told["socket"], scratch.file("manager.sock"));
  const Ran ran = run({"status", "--require-manager"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_NE(ran.out.find("No manager runs"), std::string::npos) << ran.out;
  make_orphan();
  EXPECT_EQ(run({"status", "--require-manager"}).code, 4) << "leaks matter more";
  EXPECT_EQ(scratch.names(), std::vector<std::string>()) << "none is started";
}

TEST_F(ShmManagerStatusOfManager, ShowsItsClients) {
  const FakeManager manager(FakeManager::with_clients(
      {{.pid = 4242, .uid = 54321, .connected_s = 7200, .messages = 19, .holds = 3},
       {.pid = 4243}}));
  const auto told = run_json({"status", "--require-manager"})["manager"];
  EXPECT_EQ(told["state"], "listening");
  EXPECT_EQ(told["socket"], manager.path());
  EXPECT_EQ(told["pid"], 77);
  EXPECT_EQ(told["reason"], nullptr);
  ASSERT_EQ(told["clients"].size(), 2u) << "whoever asks is left out: " << told;
  EXPECT_EQ(told["clients"][0], (nlohmann::json{{"pid", 4242},
                                                {"uid", 54321},
                                                {"connected_seconds", 7200},
                                                {"messages", 19},
                                                {"names", 3}}));
  const Ran ran = run({"status"});
  for (const char* word : {"Manager 77", "2 clients", "4242", "54321", "2 h", "19"})
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << " in\n" << ran.out;
  const std::string metrics = run({"status", "--prometheus"}).out;
  EXPECT_NE(metrics.find("\nshoal_manager_up 1\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\nshoal_manager_clients 2\n"), std::string::npos) << metrics;
}

TEST_F(ShmManagerStatusOfManager, AsksForMoreClientsThanOneAnswerHolds) {
  std::vector<Client> many;
  for (std::uint32_t i = 0; i < 2 * manager::kMostClients + 1; ++i)
    many.push_back({.pid = 10'000'000 + i});
  const FakeManager manager(FakeManager::with_clients(many));
  const auto clients = run_json({"status"})["manager"]["clients"];
  ASSERT_EQ(clients.size(), many.size());
  for (std::size_t i = 0; i < many.size(); ++i) ASSERT_EQ(clients[i]["pid"], many[i].pid);
}

// What goes wrong is shown, and the segments all the same.
TEST_F(ShmManagerStatusOfManager, IsNotStoppedByOneThatMisbehaves) {
  const Segment segment(100, 1, SharingStrategy::file_system);
  const auto expect_trouble = [&](const char* what, const FakeManager::Answer& answer,
                                  const std::string& word) {
    const FakeManager manager(answer);
    const auto told = run_json({"status"});
    EXPECT_EQ(told["segments"].size(), 1u) << what;
    EXPECT_EQ(told["manager"]["state"], "unreachable") << what;
    const std::string reason = told["manager"]["reason"];
    EXPECT_NE(reason.find(word), std::string::npos) << what << ": " << reason;
    const Ran ran = run({"status", "--require-manager", "--color", "never"});
    EXPECT_EQ(ran.code, 3) << what;
    EXPECT_NE(ran.out.find("cannot be asked"), std::string::npos) << what << ran.out;
    EXPECT_EQ(ran.out.find('\x1b'), std::string::npos) << what << ran.out;
  };
  using Bytes = std::vector<std::byte>;
  expect_trouble(
      "silent", [](const manager::Frame&) { return Bytes(); }, "does not answer");
  expect_trouble(
      "gibberish", [](const manager::Frame&) { return Bytes(40, std::byte{7}); }, "");
  expect_trouble(
      "of another version",
      [](const manager::Frame&) {
        Bytes bytes = manager::encode({.verb = manager::Verb::welcome, .pid = 1});
        bytes[4] = std::byte{99};
        return bytes;
      },
      "99");
  expect_trouble(
      "refuses",
      [](const manager::Frame&) {
        return manager::encode({.verb = manager::Verb::refused, .reason = "full \x1b[2J"});
      },
      "full");
  expect_trouble(
      "always welcomes",
      [](const manager::Frame&) {
        return manager::encode({.verb = manager::Verb::welcome, .pid = 1});
      },
      "no report");
  expect_trouble(
      "never comes to an end",
      [](const manager::Frame& request) {
        if (request.verb == manager::Verb::hello)
          return manager::encode({.verb = manager::Verb::welcome, .pid = 1});
        return manager::encode({.verb = manager::Verb::clients,
                                .first = 5,
                                .total = UINT32_MAX,
                                .clients = {Client{.pid = 1}}});
      },
      "no report");
}

TEST_F(ShmManagerStatusOfManager, RefusesASenselessAddress) {
  const test::Environment environment("SHOAL_MANAGER", "not/absolute");
  const auto told = run_json({"status"})["manager"];
  EXPECT_EQ(told["state"], "unreachable");
  EXPECT_NE(told["reason"].get<std::string>().find("SHOAL_MANAGER"), std::string::npos);
}

}  // namespace
}  // namespace shoal
