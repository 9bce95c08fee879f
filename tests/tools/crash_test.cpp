#include <gtest/gtest.h>

#include <string_view>

#include "shoal/runtime/shm/orphans.h"
#include "support/processes.h"
#include "support/program.h"
#include "tools/tiny_mnist.h"

// shoal-train when processes are killed, or memory is short.
namespace shoal {
namespace {

constexpr double kSoon = 60;

struct Variant {
  const char* strategy;
  const char* start_method;
};

class Crash : public testing::TestWithParam<Variant> {
 protected:
  // Two workers on a training that would take hours.
  [[nodiscard]] std::vector<std::string> endless() const {
    return {SHOAL_TRAIN,
            "--data",
            data_.path(),
            "--mode",
            "hogwild",
            "--workers",
            "2",
            "--epochs",
            "1000000",
            "--strategy",
            GetParam().strategy,
            "--start-method",
            GetParam().start_method,
            "--quiet"};
  }

  // Both workers, once they are there.
  static std::vector<Fd> workers_of(const Program& program, std::vector<pid_t>& pids) {
    // Children of the fork server, where that starts them.
    const bool elsewhere = GetParam().start_method == std::string_view("forkserver");
    EXPECT_TRUE(test::soon([&] {
      pids = test::children_of(program.pid());
      if (elsewhere && pids.size() == 1) pids = test::children_of(pids[0]);
      return pids.size() == 2;
    }));
    std::vector<Fd> watched;
    for (const pid_t pid : pids) watched.push_back(open_pidfd(pid));
    return watched;
  }

  // Killed processes give nothing back; the next process of Shoal's, here this one, does it for
  // them.
  void TearDown() override { reap_orphans(); }

  TinyMnist data_;
};

INSTANTIATE_TEST_SUITE_P(
    Variants, Crash,
    testing::Values(Variant{"file_descriptor", "spawn"}, Variant{"file_descriptor", "fork"},
                    Variant{"file_system", "spawn"}, Variant{"file_system", "fork"},
                    Variant{"file_descriptor", "forkserver"}, Variant{"file_system", "forkserver"}),
    [](const auto& one) { return std::string(one.param.strategy) + "_" + one.param.start_method; });

TEST_P(Crash, AKilledWorkerEndsTheTrainingNamingRankAndSignal) {
  Program program(endless());
  std::vector<pid_t> pids;
  const std::vector<Fd> workers = workers_of(program, pids);
  ASSERT_EQ(workers.size(), 2u) << program.err();
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(program.wait(in_seconds(kSoon)), 1);
  EXPECT_NE(program.err().find("worker of rank"), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("SIGKILL"), std::string::npos) << program.err();
  for (const Fd& worker : workers) EXPECT_TRUE(wait_ready(worker.get(), POLLIN, in_ms(0)));
}

TEST_P(Crash, WorkersEndWithAKilledParent) {
  Program program(endless());
  std::vector<pid_t> pids;
  const std::vector<Fd> workers = workers_of(program, pids);
  ASSERT_EQ(workers.size(), 2u) << program.err();
  ::kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.wait(in_seconds(kSoon)), -SIGKILL);
  for (const Fd& worker : workers) EXPECT_TRUE(wait_ready(worker.get(), POLLIN, in_seconds(kSoon)));
}

// In a mount namespace of its own, so that nothing else is in its /dev/shm.
class SmallShm : public testing::Test {
 protected:
  void SetUp() override {
    if (Program({"unshare", "--mount", "true"}).wait(in_seconds(kSoon)) != 0)
      GTEST_SKIP() << "mount namespaces are not permitted here";
  }
  [[nodiscard]] std::vector<std::string> command(const std::string& size,
                                                 const std::string& arguments) const {
    return {"unshare", "--mount", "sh", "-c",
            concat("mount -t tmpfs -o size=", size, " tmpfs /dev/shm && '", SHOAL_TRAIN,
                   "' --data '", data_.path(), "' --mode hogwild --workers 2 --quiet ", arguments,
                   "; code=$?; ls /dev/shm >&2; exit $code")};
  }
  TinyMnist data_;
};

TEST_F(SmallShm, IsAnErrorThatNamesWantedFreeLimitAndRemedyByName) {
  // 600,000 parameters, 2 MB.
  Program program(command("1m", "--epochs 1 --hidden 20000 --strategy file_system"));
  EXPECT_EQ(program.wait(in_seconds(kSoon)), 1);
  for (const char* word : {"wanted", "free of 1 MiB", "/dev/shm", "remount", "file_descriptor"})
    EXPECT_NE(program.err().find(word), std::string::npos) << word << " in\n" << program.err();
  EXPECT_EQ(program.err().find("shoal-segment"), std::string::npos) << "nothing is left";
}

TEST_F(SmallShm, DoesNotMatterByDescriptor) {
  Program program(command("1m",
                          "--epochs 1 --hidden 20000 --lr 0.001 "
                          "--strategy file_descriptor"));
  EXPECT_EQ(program.wait(in_seconds(kSoon)), 0) << program.err();
}

TEST_F(SmallShm, IsLeftEmptyWhenAWorkerOrTheParentIsKilled) {
  for (const char* victim : {"$(pgrep -P $p | tail -n 1)", "$p"}) {
    Program program(
        {"unshare", "--mount", "bash", "-c",
         concat("mount -t tmpfs -o size=64m tmpfs /dev/shm\n'", SHOAL_TRAIN, "' --data '",
                data_.path(),
                "' --mode hogwild --workers 2 --quiet --epochs 1000000 --strategy file_system "
                "2>/dev/null &\np=$!\n"
                // Both have run once they have the model mapped.
                "until [ $(for k in $(pgrep -P $p); do grep -l /dev/shm/ /proc/$k/maps; done "
                "2>/dev/null | wc -l) = 2 ]; do :; done\n"
                "kids=$(pgrep -P $p)\nkill -9 ",
                victim,
                "\nwait $p\nfor k in $kids; do tail --pid=$k -f /dev/null; done\n"
                "ls /dev/shm | grep segment && exit 7; exit 0")});
    EXPECT_EQ(program.wait(in_seconds(kSoon)), 0) << victim << "\n" << program.out();
  }
}

}  // namespace
}  // namespace shoal
