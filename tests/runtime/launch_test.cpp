#include "shoal/runtime/process/launch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <optional>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/pidfd.h"
#include "support/strategies.h"

namespace shoal {
namespace {

constexpr double kSoon = 30;

Message receive_soon(Channel& channel) {
  auto message = channel.receive(in_seconds(kSoon));
  if (!message) throw std::runtime_error("no message came");
  return std::move(*message);
}

// Waits until it is told to go on, or for ever when its launcher is not going to.
void wait_for_word(Worker& worker) { (void)worker.parent.receive(); }

}  // namespace

SHOAL_ENTRY(succeed)
int succeed(Worker&) { return 0; }

SHOAL_ENTRY(tell_rank)
int tell_rank(Worker& worker) {
  worker.parent.send({.tag = concat(worker.rank, " of ", worker.world_size),
                      .bytes = {},
                      .tensors = worker.args.tensors});
  return 0;
}

SHOAL_ENTRY(add_rank_plus_one)
int add_rank_plus_one(Worker& worker) {
  const Tensor& shared = worker.args.tensors.at(0);
  shared.at<float>(worker.rank) += static_cast<float>(worker.rank + 1);
  return 0;
}

SHOAL_ENTRY(rank_one_throws)
int rank_one_throws(Worker& worker) {
  if (worker.rank == 1) throw std::invalid_argument("rank one is tired");
  wait_for_word(worker);
  return 0;
}

SHOAL_ENTRY(rank_one_returns_twelve)
int rank_one_returns_twelve(Worker& worker) {
  if (worker.rank == 1) return 12;
  wait_for_word(worker);
  return 0;
}

SHOAL_ENTRY(rank_one_is_killed)
int rank_one_is_killed(Worker& worker) {
  if (worker.rank == 1) ::raise(SIGKILL);
  wait_for_word(worker);
  return 0;
}

SHOAL_ENTRY(ignore_sigterm)
int ignore_sigterm(Worker& worker) {
  ::signal(SIGTERM, SIG_IGN);
  worker.parent.send({.tag = "deaf"});
  wait_for_word(worker);
  wait_for_word(worker);
  return 0;
}

// Computes on without looking at its channel, as training does.
SHOAL_ENTRY(spin)
int spin(Worker& worker) {
  worker.parent.send({.tag = "spinning"});
  for (std::atomic<std::uint64_t> steps{0};;) ++steps;
}

SHOAL_ENTRY(keep_and_return)
int keep_and_return(Worker& worker) {
  worker.parent.send({.tag = "kept"});
  wait_for_word(worker);
  worker.parent.send({.tensors = worker.args.tensors});
  return 0;
}

// A launcher of its own: starts two workers that spin, tells their ids, and waits.
SHOAL_ENTRY(launch_two)
int launch_two(Worker& worker) {
  ProcessContext context =
      launch(spin, {.nprocs = 2, .start_method = parse_start_method(worker.args.tag)});
  for (int rank = 0; rank < 2; ++rank) (void)receive_soon(context.channel(rank));
  const auto pids = context.pids();
  const auto bytes = std::as_bytes(std::span(pids));
  worker.parent.send({.bytes = {bytes.begin(), bytes.end()}});
  wait_for_word(worker);
  return 0;
}

namespace {

class Launching : public testing::TestWithParam<StartMethod> {
 protected:
  [[nodiscard]] LaunchOptions with(int nprocs) const {
    return {.nprocs = nprocs, .start_method = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(StartMethods, Launching, testing::ValuesIn(get_all_start_methods()),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(Launching, EveryRankRunsAndIsJoined) {
  ProcessContext context = launch(tell_rank, with(3));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(receive_soon(context.channel(rank)).tag, concat(rank, " of 3"));
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
  EXPECT_TRUE(context.join(in_seconds(kSoon))) << "joining again changes nothing";
}

TEST_P(Launching, WorkersWriteIntoWhatTheLauncherHolds) {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    const test::UsingStrategy use(strategy);
    // Private until now: launch shares it, so that no worker writes into a copy.
    const Tensor tensor = Tensor::zeros({2});
    EXPECT_TRUE(launch(add_rank_plus_one, Message{.tensors = {tensor}}, with(2)).join());
    EXPECT_TRUE(tensor.is_shared());
    EXPECT_EQ(tensor.at<float>(0), 1) << to_string(strategy);
    EXPECT_EQ(tensor.at<float>(1), 2) << to_string(strategy);
  }
}

TEST_P(Launching, EachRankMayGetItsOwnArguments) {
  ProcessContext context = launch(
      tell_rank, [](int rank) { return Message{.tensors = {Tensor::full({}, rank * 10)}}; },
      with(2));
  EXPECT_EQ(receive_soon(context.channel(1)).tensors.at(0).item<float>(), 10);
  EXPECT_EQ(receive_soon(context.channel(0)).tensors.at(0).item<float>(), 0);
  EXPECT_TRUE(context.join());
}

TEST_P(Launching, AnExceptionIsThrownHereWithRankTypeAndMessage) {
  ProcessContext context = launch(rank_one_throws, with(3));
  const auto pids = context.pids();
  try {
    context.join(in_seconds(kSoon));
    FAIL() << "nothing was thrown";
  } catch (const ProcessRaised& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_EQ(error.pid(), pids[1]);
    EXPECT_EQ(error.type(), "std::invalid_argument");
    EXPECT_EQ(error.message(), "rank one is tired");
    EXPECT_NE(std::string(error.what()).find("worker of rank 1"), std::string::npos);
  }
  for (const pid_t pid : pids) EXPECT_EQ(::kill(pid, 0), -1) << "the others were ended too";
  EXPECT_THROW(context.join(), ProcessRaised) << "and it stays failed";
}

TEST_P(Launching, AnExitCodeIsNamed) {
  ProcessContext context = launch(rank_one_returns_twelve, with(2));
  try {
    context.join(in_seconds(kSoon));
    FAIL() << "nothing was thrown";
  } catch (const ProcessExited& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_EQ(error.exit_code(), 12);
    EXPECT_EQ(error.signal(), 0);
  }
}

TEST_P(Launching, AKillIsNamed) {
  ProcessContext context = launch(rank_one_is_killed, with(2));
  try {
    context.join(in_seconds(kSoon));
    FAIL() << "nothing was thrown";
  } catch (const ProcessExited& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_EQ(error.signal(), SIGKILL);
    EXPECT_NE(std::string(error.what()).find("SIGKILL"), std::string::npos);
  }
}

TEST_P(Launching, JoinGivesUpAtTheDeadlineAndMayBeCalledAgain) {
  ProcessContext context = launch(rank_one_throws, with(1));
  EXPECT_FALSE(context.join(in_ms(1)));
  context.channel(0).send({.tag = "go on"});
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
}

TEST_P(Launching, AWorkerDeafToSigtermIsKilledAfterTheGrace) {
  LaunchOptions options = with(1);
  options.grace_seconds = 0.01;
  ProcessContext context = launch(ignore_sigterm, options);
  EXPECT_EQ(receive_soon(context.channel(0)).tag, "deaf");
  context.terminate(0.01);
  try {
    context.join(in_seconds(kSoon));
    FAIL() << "nothing was thrown";
  } catch (const ProcessExited& error) {
    EXPECT_EQ(error.signal(), SIGKILL);
  }
}

TEST_P(Launching, NothingOutlivesTheContext) {
  pid_t pid = -1;
  {
    ProcessContext context = launch(spin, with(1));
    (void)receive_soon(context.channel(0));
    pid = context.pids()[0];
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_P(Launching, WorkersEndWithAKilledLauncher) {
  // The launcher is itself a worker, so that it can be killed.
  ProcessContext launcher =
      launch(launch_two, Message{.tag = std::string(to_string(GetParam()))}, with(1));
  const Message told = receive_soon(launcher.channel(0));
  ASSERT_EQ(told.bytes.size(), 2 * sizeof(pid_t));
  std::array<pid_t, 2> pids;
  std::memcpy(pids.data(), told.bytes.data(), sizeof pids);
  std::vector<Fd> watched;
  for (const pid_t pid : pids) watched.push_back(open_pidfd(pid));
  ::kill(launcher.pids()[0], SIGKILL);
  for (const Fd& fd : watched) {
    EXPECT_TRUE(wait_ready(fd.get(), POLLIN, in_seconds(kSoon)));
  }
  EXPECT_THROW(launcher.join(), ProcessExited);
}

TEST_P(Launching, LeavesNoDescriptorBehind) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  EXPECT_TRUE(launch(succeed, with(2)).join());
  const auto before = count();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(launch(succeed, with(2)).join());
  EXPECT_EQ(count(), before);
}

TEST(Launch, RefusesFewerThanOneProcess) {
  EXPECT_THROW((void)launch(succeed, {.nprocs = 0}), Error);
}

int not_an_entry(Worker&) { return 0; }

TEST(Launch, RefusesAFunctionThatIsNoEntry) {
  try {
    (void)launch(not_an_entry, LaunchOptions{});
    FAIL() << "launched";
  } catch (const Error& error) {
    EXPECT_NE(error.remedy().find("SHOAL_ENTRY"), std::string::npos);
  }
}

TEST(LaunchForked, RunsAClosure) {
  const Tensor tensor = Tensor::zeros({4}).share_memory();
  ProcessContext context = launch_forked(
      [&](Worker& worker) {
        tensor.at<float>(worker.rank) = static_cast<float>(worker.rank);
        return 0;
      },
      {.nprocs = 4});
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(tensor.at<float>(rank), rank);
}

TEST(LaunchForked, AChildForkedByTheProgramLeavesTheWorkersAlone) {
  std::optional<ProcessContext> context = launch_forked(
      [](Worker& worker) {
        wait_for_word(worker);
        return 0;
      },
      {.nprocs = 1});
  const pid_t child = ::fork();
  if (child == 0) {
    context.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  context->channel(0).send({});
  EXPECT_TRUE(context->join(in_seconds(kSoon)));
}

// The second time around a forked worker knows the tensor already, and holds it all the same.
TEST(LaunchForked, AWorkerHoldsAnInheritedTensorThatItIsSent) {
  const test::UsingStrategy use(SharingStrategy::file_system);
  Tensor tensor = Tensor::full({4}, 1);
  EXPECT_TRUE(launch(succeed, Message{.tensors = {tensor}}, {.nprocs = 1}).join());
  ProcessContext context = launch(keep_and_return, Message{.tensors = {tensor}},
                                  {.nprocs = 1, .start_method = StartMethod::fork});
  EXPECT_EQ(receive_soon(context.channel(0)).tag, "kept");
  tensor = Tensor();
  context.channel(0).send({.tag = "send it back"});
  EXPECT_EQ(receive_soon(context.channel(0)).tensors.at(0).at<float>(3), 1);
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
}

// A fork of the second worker copies the launcher's end of the first one's channel; were it left
// open there, the first would wait for ever for the end that the launcher has closed.
TEST(LaunchForked, WorkersSeeTheirChannelCloseThoughSiblingsWereForkedLater) {
  std::optional<ProcessContext> first = launch_forked(
      [](Worker& worker) {
        worker.parent.send({.tag = "up"});
        return worker.parent.receive(in_seconds(kSoon)) || !worker.parent.peer_closed() ? 1 : 0;
      },
      {.nprocs = 1});
  (void)receive_soon(first->channel(0));
  ProcessContext second = launch_forked(
      [](Worker& worker) {
        wait_for_word(worker);
        return 0;
      },
      {.nprocs = 1});
  { const Channel closed = std::move(first->channel(0)); }
  EXPECT_TRUE(first->join(in_seconds(kSoon)));
  second.channel(0).send({});
  EXPECT_TRUE(second.join(in_seconds(kSoon)));
}

}  // namespace
}  // namespace shoal
