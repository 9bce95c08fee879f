#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "tools/operator.h"

// What `shm-manager status` says about segments.
namespace shoal {
namespace {

constexpr auto kNamed = SharingStrategy::file_system;

class ShmManagerStatus : public test::Operator {
 protected:
  static struct stat about(const std::string& name) {
    struct stat result {};
    EXPECT_EQ(::lstat(path_of(name).c_str(), &result), 0);
    return result;
  }
  static std::vector<std::string> names(const nlohmann::json& answer) {
    std::vector<std::string> all;
    for (const auto& segment : answer["segments"]) all.push_back(segment["name"]);
    return all;
  }
};

std::set<std::string> keys(const nlohmann::json& json) {
  std::set<std::string> all;
  for (const auto& [key, value] : json.items()) all.insert(key);
  return all;
}

bool holds_control_characters(const std::string& text) {
  return std::ranges::any_of(text, [](char c) { return c != '\n' && (c < ' ' || c > '~'); });
}

TEST_F(ShmManagerStatus, TellsAllOfALivingSegment) {
  const Segment segment(100'000, 1, kNamed);
  const auto answer = run_json({"status"});
  EXPECT_EQ(keys(answer), (std::set<std::string>{"unix_seconds", "prefix", "segments", "totals",
                                                 "manager", "shm"}));
  EXPECT_EQ(answer["prefix"], prefix());
  const auto file = about(segment.name());
  const auto told = segment_of(answer, segment.name());
  const std::int64_t age = told["age_seconds"], created = told["created_unix_seconds"];
  EXPECT_EQ(age, answer["unix_seconds"].get<std::int64_t>() - created);
  const nlohmann::json expected{
      {"name", segment.name()},
      {"bytes", file.st_size},
      {"resident_bytes", file.st_blocks * 512},
      {"created_unix_seconds", created},
      {"age_seconds", age},
      {"creator_pid", ::getpid()},
      {"holders", {{{"pid", ::getpid()}, {"slot", 0}, {"alive", true}}}},
      {"uid", ::geteuid()},
      {"state", "live"},
      {"reason", nullptr},
  };
  EXPECT_EQ(told, expected);
  EXPECT_EQ(answer["totals"], (nlohmann::json{{"segments", 1},
                                              {"bytes", file.st_size},
                                              {"resident_bytes", file.st_blocks * 512},
                                              {"live", 1},
                                              {"orphaned", 0},
                                              {"unknown", 0}}));
  EXPECT_EQ(answer["manager"], (nlohmann::json{{"state", "off"},
                                               {"socket", nullptr},
                                               {"pid", nullptr},
                                               {"reason", nullptr},
                                               {"clients", nlohmann::json::array()}}));
  EXPECT_EQ(keys(answer["shm"]),
            (std::set<std::string>{"bytes", "shoal_bytes", "others_bytes", "free_bytes"}));
  EXPECT_EQ(answer["shm"]["shoal_bytes"], file.st_blocks * 512);
}

TEST_F(ShmManagerStatus, WithoutSegmentsIsInOrder) {
  const Ran ran = run({"status"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("No segments named " + prefix()), std::string::npos) << ran.out;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(run_json({"status"})["segments"], nlohmann::json::array());
}

TEST_F(ShmManagerStatus, NoticesWhatAKilledProcessLeft) {
  pid_t creator = 0;
  const std::string name = make_orphan(100, &creator);
  const auto told = segment_of(run_json({"status"}, 4), name);
  EXPECT_EQ(told["state"], "orphaned");
  EXPECT_EQ(told["creator_pid"], creator);
  EXPECT_EQ(told["holders"], (nlohmann::json{{{"pid", creator}, {"slot", 0}, {"alive", false}}}));
  const Ran ran = run({"status"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_NE(ran.out.find("orphaned"), std::string::npos);
  EXPECT_NE(ran.out.find("1 orphaned"), std::string::npos) << ran.out;
  EXPECT_TRUE(test::shm_name_exists(name)) << "to look is not to touch";
}

TEST_F(ShmManagerStatus, CountsAMessageOnItsWayAsAHolder) {
  Segment segment(100, 1, kNamed);
  const std::uint32_t block = 0;
  const auto flight = segment.depart(std::span(&block, 1));
  const auto told = segment_of(run_json({"status"}), segment.name());
  ASSERT_EQ(told["holders"].size(), 2u);
  EXPECT_TRUE(told["holders"][1]["alive"]);
}

TEST_F(ShmManagerStatus, SaysWhyAFileCannotBeJudged) {
  const std::string garbage = plant("garbage", std::string(5000, 'x'));
  const std::string empty = plant("empty");
  const std::string link = plant_link("link", "/etc/passwd");
  const std::string fifo = plant_fifo("fifo");
  const std::string cut = make_orphan(50'000);
  ASSERT_EQ(::truncate(path_of(cut).c_str(), 4096), 0);
  adopt(cut);
  const auto answer = run_json({"status"});
  for (const auto& [name, reason] :
       std::vector<std::pair<std::string, std::string>>{{garbage, ""},
                                                        {empty, "too short"},
                                                        {link, "not a regular file"},
                                                        {fifo, "not a regular file"},
                                                        {cut, ""}}) {
    const auto told = segment_of(answer, name);
    EXPECT_EQ(told["state"], "unknown") << told;
    const std::string why = told["reason"];
    EXPECT_NE(why, "") << told;
    EXPECT_NE(why.find(reason), std::string::npos) << told;
    EXPECT_TRUE(told["holders"].empty()) << told;
  }
  EXPECT_EQ(answer["totals"]["unknown"], 5);
}

TEST_F(ShmManagerStatus, ShowsAnyNameWithoutObeyingIt) {
  // Clears the screen, moves up, and is not UTF-8; then what JSON has to escape.
  const std::string wild = plant(
      "\x1b[2J\x9b"
      "1A\r\n\xff\x7f");
  const std::string quoted = plant("\"}\\ \xc2\x9b");
  const Ran ran = run({"status", "--color", "never"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_FALSE(holds_control_characters(ran.out)) << testing::PrintToString(ran.out);
  EXPECT_NE(ran.out.find(prefix() + "segment-\\x1b[2J\\x9b1A\\x0d\\x0a\\xff\\x7f"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("segment-\"}\\\\ \\xc2\\x9b"), std::string::npos) << ran.out;
  const Ran json = run({"status", "--json"});
  EXPECT_FALSE(holds_control_characters(json.out)) << testing::PrintToString(json.out);
  const auto answer = nlohmann::json::parse(json.out);
  EXPECT_EQ(answer["segments"].size(), 2u);
  EXPECT_EQ(segment_of(answer, quoted)["state"], "unknown");
}

TEST_F(ShmManagerStatus, SortsBothWays) {
  const Segment small(100, 1, kNamed);
  const Segment large(100'000, 1, kNamed);
  const std::string orphan = make_orphan(10'000);
  const std::string strange = plant("0", "x");
  using Names = std::vector<std::string>;
  const auto sorted = [&](std::vector<std::string> options) {
    options.insert(options.begin(), "status");
    return names(run_json(std::move(options), 4));
  };
  EXPECT_EQ(sorted({"--sort", "bytes"}), (Names{large.name(), orphan, small.name(), strange}));
  EXPECT_EQ(sorted({"--sort", "bytes", "--reverse"}),
            (Names{strange, small.name(), orphan, large.name()}));
  Names by_name{large.name(), orphan, small.name(), strange};
  std::ranges::sort(by_name);
  EXPECT_EQ(sorted({}), by_name);
  EXPECT_EQ(sorted({"--sort", "name"}), by_name);
  Names lives{small.name(), large.name()};
  std::ranges::sort(lives);
  EXPECT_EQ(sorted({"--sort", "state"}), (Names{orphan, strange, lives[0], lives[1]}));
  EXPECT_EQ(sorted({"--sort", "resident"}).front(), large.name());
  Names holders = sorted({"--sort", "holders"});
  EXPECT_EQ((Names{holders[0], holders[1]}), lives);
  EXPECT_EQ(sorted({"--sort", "age"}).size(), 4u);
}

TEST_F(ShmManagerStatus, AddsUpByCreator) {
  const Segment first(100'000, 1, kNamed), second(100'000, 1, kNamed);
  pid_t dead = 0;
  const std::string orphan = make_orphan(100, &dead);
  plant("garbage", "x");
  const auto groups = run_json({"status", "--group", "pid"}, 4)["groups"];
  ASSERT_EQ(groups.size(), 3u) << groups;
  const auto file = about(first.name());
  EXPECT_EQ(groups[0], (nlohmann::json{{"creator_pid", ::getpid()},
                                       {"segments", 2},
                                       {"bytes", 2 * file.st_size},
                                       {"resident_bytes", 2 * file.st_blocks * 512},
                                       {"live", 2},
                                       {"orphaned", 0},
                                       {"unknown", 0}}));
  EXPECT_EQ(groups[1]["creator_pid"], dead);
  EXPECT_EQ(groups[1]["orphaned"], 1);
  EXPECT_EQ(groups[2]["creator_pid"], 0);
  EXPECT_EQ(groups[2]["unknown"], 1);
  const Ran ran = run({"status", "--group", "pid"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_NE(ran.out.find("ORPHANED"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find(orphan), std::string::npos) << ran.out;
}

TEST_F(ShmManagerStatus, SpeaksPrometheus) {
  const Segment segment(100'000, 1, kNamed);
  make_orphan();
  plant("garbage", "12345");
  const auto file = about(segment.name());
  const Ran ran = run({"status", "--prometheus"});
  EXPECT_EQ(ran.code, 4);
  for (const std::string& line :
       {std::string("# TYPE shoal_segments gauge"), std::string("shoal_segments{state=\"live\"} 1"),
        std::string("shoal_segments{state=\"orphaned\"} 1"),
        std::string("shoal_segments{state=\"unknown\"} 1"),
        concat("shoal_segment_bytes{state=\"live\"} ", file.st_size),
        std::string("shoal_segment_bytes{state=\"unknown\"} 5"),
        concat("shoal_segment_resident_bytes{state=\"live\"} ", file.st_blocks * 512),
        std::string("# TYPE shoal_shm_bytes gauge"), std::string("shoal_manager_up 0"),
        std::string("shoal_manager_clients 0")})
    EXPECT_NE(("\n" + ran.out).find("\n" + line + "\n"), std::string::npos)
        << line << " is missing in\n"
        << ran.out;
  for (const char* by : {"shoal", "others", "free"})
    EXPECT_NE(ran.out.find(concat("\nshoal_shm_bytes{by=\"", by, "\"} ")), std::string::npos);
}

TEST_F(ShmManagerStatus, RefusesWrongArguments) {
  const std::vector<std::vector<std::string>> wrong{
      {"status", "--sort", "beauty"},
      {"status", "--group", "colour"},
      {"status", "--group", "pid", "--sort", "bytes"},
      {"status", "--group", "pid", "--prometheus"},
      {"status", "--json", "--prometheus"},
      {"status", "--watch", "0"},
      {"status", "--watch", "-1"},
      {"status", "--watch", "nan"},
      {"status", "--watch", "soon"},
      {"status", "--color", "blue"},
      {"status", "--no-such-option"},
      {"status", "everything"},
      {"reap", "--sort", "name"},
      {"doctor", "--dry-run"},
  };
  for (const auto& arguments : wrong) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << testing::PrintToString(arguments) << ran.out;
    EXPECT_EQ(ran.out, "") << testing::PrintToString(arguments);
    EXPECT_NE(ran.err, "") << testing::PrintToString(arguments);
  }
  for (const char* prefix : {"*", "a/b", ".hidden", "", "shoal \x1b[2J"}) {
    Program program({SHM_MANAGER, "status", "--prefix", prefix});
    EXPECT_EQ(program.wait(in_seconds(test::kOperatorSoon)), 2) << prefix;
  }
  Program nothing({SHM_MANAGER});
  EXPECT_EQ(nothing.wait(in_seconds(test::kOperatorSoon)), 2);
}

TEST_F(ShmManagerStatus, TakesThePrefixFromTheEnvironment) {
  const Segment segment(100, 1, kNamed);
  const test::Environment environment("SHOAL_NAME_PREFIX", prefix());
  Program program({SHM_MANAGER, "status"});
  EXPECT_EQ(program.wait(in_seconds(test::kOperatorSoon)), 0);
  EXPECT_NE(program.out().find(segment.name()), std::string::npos);
  const test::Environment senseless("SHOAL_NAME_PREFIX", "no/prefix");
  Program refused({SHM_MANAGER, "status"});
  EXPECT_EQ(refused.wait(in_seconds(test::kOperatorSoon)), 1);
  EXPECT_NE(refused.err().find("SHOAL_NAME_PREFIX"), std::string::npos);
}

}  // namespace
}  // namespace shoal
