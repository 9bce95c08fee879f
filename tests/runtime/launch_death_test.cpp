#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "shoal/autograd/functions.h"
#include "shoal/autograd/losses.h"
#include "shoal/runtime/ipc/message_bytes.h"
#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/tensor/ops.h"
#include "support/expect_error.h"
#include "support/in_child.h"
#include "support/processes.h"
#include "support/start_methods.h"

// Who ends when who has ended; and that nobody waits for what cannot come.
namespace shoal {

using test::kSoon;
using test::receive_soon;

SHOAL_ENTRY(wait_and_answer)
int wait_and_answer(Worker& worker) {
  while (auto message = worker.parent.receive()) {
    if (message->tag == "end") return 0;
    worker.parent.send({.tag = "here"});
  }
  return 0;
}

// Three levels: each launches two of the next and waits for ever.
SHOAL_ENTRY(launch_the_next_level)
int launch_the_next_level(Worker& worker) {
  const auto level = from_bytes<int>(worker.args.bytes);
  if (level > 0) {
    ProcessContext context =
        launch(launch_the_next_level, Message{.tag = worker.args.tag, .bytes = to_bytes(level - 1)},
               {.nprocs = 2, .start_method = parse_start_method(worker.args.tag)});
    for (int rank = 0; rank < 2; ++rank) (void)receive_soon(context.channel(rank));
    worker.parent.send({.tag = "all there"});
    context.join();
  }
  worker.parent.send({.tag = "here"});
  (void)worker.parent.receive();
  return 0;
}

SHOAL_ENTRY(count_a_run)
int count_a_run(Worker& worker) {
  worker.args.tensors.at(0).at<float>(worker.rank) += 1;
  return 0;
}

// Leaves behind a process that has a copy of all that this one has open, and tells its id.
SHOAL_ENTRY(leave_a_helper_and_die)
int leave_a_helper_and_die(Worker& worker) {
  const pid_t helper = ::fork();
  if (helper == 0) {
    for (;;) ::pause();
  }
  worker.parent.send({.bytes = to_bytes(helper)});
  ::raise(SIGKILL);
  return 0;
}

SHOAL_ENTRY(rank_one_throws_zero_is_deaf)
int rank_one_throws_zero_is_deaf(Worker& worker) {
  if (worker.rank == 1) {
    // Not before the other is deaf.
    (void)receive_soon(worker.parent);
    throw std::runtime_error("rank one");
  }
  ::signal(SIGTERM, SIG_IGN);
  worker.parent.send({.tag = "deaf"});
  for (std::atomic<std::uint64_t> steps{0};;) ++steps;
}

namespace {

constexpr double kPromised = 2;  // seconds: README, "its workers end within two seconds"

class Death : public test::WithStartMethod {};
SHOAL_FOR_ALL_START_METHODS(Death);

// Gives way until a process has so many descendants, and returns them.
std::vector<pid_t> wait_for_descendants(pid_t pid, std::size_t least) {
  std::vector<pid_t> all;
  EXPECT_TRUE(test::soon([&] { return (all = test::descendants_of(pid)).size() >= least; }));
  return all;
}

TEST_P(Death, OfTheLauncherEndsAllLevelsBelow) {
  test::Peer launcher([](Channel& channel) {
    ProcessContext context =
        launch(launch_the_next_level,
               Message{.tag = std::string(to_string(GetParam())), .bytes = to_bytes(1)}, with(2));
    for (int rank = 0; rank < 2; ++rank) (void)receive_soon(context.channel(rank));
    channel.send({});
    context.join();
  });
  (void)receive_soon(launcher.channel());
  const auto below = wait_for_descendants(launcher.pid(), 6);
  const test::Watched watched(below);
  EXPECT_EQ(watched.size(), below.size());
  EXPECT_TRUE(watched.none_has_ended());
  launcher.kill();
  EXPECT_TRUE(watched.all_end(kPromised));
}

// The traps of PR_SET_PDEATHSIG, which follows threads: a worker ends neither with the thread that
// launched it nor a moment too late for having been launched by one.
TEST_P(Death, OfTheLaunchingThreadMeansNothing) {
  test::Peer launcher([](Channel& channel) {
    std::optional<ProcessContext> context;
    std::thread([&] {
      LaunchOptions options = with(2);
      options.fork_with_threads = true;
      context.emplace(launch(wait_and_answer, options));
    }).join();
    for (int rank = 0; rank < 2; ++rank) {
      context->channel(rank).send({.tag = "still there?"});
      EXPECT_EQ(receive_soon(context->channel(rank)).tag, "here");
    }
    channel.send({.bytes = to_bytes(testing::Test::HasFailure())});
    context->join();
  });
  EXPECT_FALSE(from_bytes<bool>(receive_soon(launcher.channel()).bytes));
  const test::Watched watched(wait_for_descendants(launcher.pid(), 2));
  EXPECT_TRUE(watched.none_has_ended());
  launcher.kill();
  EXPECT_TRUE(watched.all_end(kPromised));
}

TEST_P(Death, OfAnotherLauncherMeansNothing) {
  ProcessContext ours = launch(wait_and_answer, with(1));
  test::Peer other([](Channel& channel) {
    ProcessContext context = launch(wait_and_answer, with(1));
    channel.send({});
    context.join();
  });
  (void)receive_soon(other.channel());
  const test::Watched theirs(wait_for_descendants(other.pid(), 1));
  other.kill();
  EXPECT_TRUE(theirs.all_end(kPromised));
  ours.channel(0).send({.tag = "still there?"});
  EXPECT_EQ(receive_soon(ours.channel(0)).tag, "here");
  ours.channel(0).send({.tag = "end"});
  EXPECT_TRUE(ours.join(in_seconds(kSoon)));
}

TEST_P(Death, OfAWorkerIsSeenThoughItsHelperHoldsAllItHadOpen) {
  LaunchOptions options = with(1);
  options.tag_output = true;
  std::optional<ProcessContext> context = launch(leave_a_helper_and_die, options);
  const auto helper = from_bytes<pid_t>(receive_soon(context->channel(0)).bytes);
  const Fd watched = open_pidfd(helper);
  try {
    context->join(in_seconds(kSoon));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessExited& error) {
    EXPECT_EQ(error.signal(), SIGKILL);
  }
  EXPECT_FALSE(wait_ready(watched.get(), POLLIN, in_ms(0))) << "it held nothing then";
  context.reset();
  signal_process(watched, SIGKILL);
  // What tagged its output ends then, and the next launch collects it.
  EXPECT_TRUE(test::soon([&] { return test::count_zombies() == 1; }));
  EXPECT_FALSE(launch(wait_and_answer, with(1)).join(in_ms(0)));
  EXPECT_EQ(test::count_zombies(), 0);
}

// A sibling that heeds nothing does not keep the first failure from being told.
TEST_P(Death, ComesToADeafSiblingToo) {
  LaunchOptions options = with(2);
  options.grace_seconds = 0.05;
  ProcessContext context = launch(rank_one_throws_zero_is_deaf, options);
  EXPECT_EQ(receive_soon(context.channel(0)).tag, "deaf");
  context.channel(1).send({});
  try {
    context.join(in_seconds(kSoon));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessRaised& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_EQ(error.message(), "rank one");
  }
  EXPECT_EQ(context.end_of(0)->signal, SIGKILL);
  EXPECT_EQ(test::count_zombies(), 0);
}

// Four take tasks from a queue; the one that is killed is replaced, and its task done again.
TEST_P(Death, OfOneInAPoolLeavesTheOthersAtWork) {
  std::vector<ProcessContext> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(launch(wait_and_answer, with(1)));
  for (auto& worker : workers) worker.channel(0).send({.tag = "task"});
  for (auto& worker : workers) EXPECT_EQ(receive_soon(worker.channel(0)).tag, "here");
  ::kill(workers[2].pids()[0], SIGKILL);
  EXPECT_EQ(workers[2].wait_any(in_seconds(kSoon)), 0);
  EXPECT_EQ(workers[2].end_of(0)->signal, SIGKILL);
  workers[2] = launch(wait_and_answer, with(1));
  for (auto& worker : workers) {
    worker.channel(0).send({.tag = "task"});
    EXPECT_EQ(receive_soon(worker.channel(0)).tag, "here");
    worker.channel(0).send({.tag = "end"});
    EXPECT_TRUE(worker.join(in_seconds(kSoon)));
  }
  EXPECT_EQ(test::count_zombies(), 0);
}

// Its command line can be read a moment after it has started.
pid_t find_fork_server() {
  pid_t pid = -1;
  EXPECT_TRUE(test::soon([&] { return (pid = test::fork_server_pid()) > 0; }));
  return pid;
}

TEST(ForkServer, IsStartedOnceAndEarlyIfWanted) {
  start_fork_server();
  const pid_t server = find_fork_server();
  ASSERT_GT(server, 0);
  start_fork_server();
  EXPECT_TRUE(launch(wait_and_answer, Message{}, {.start_method = StartMethod::forkserver})
                  .wait_any(in_ms(0)) == std::nullopt);
  EXPECT_EQ(find_fork_server(), server);
}

// As when a whole process group is told to end, and launcher and workers see to it in their way.
TEST(ForkServer, LeavesSignalsToItsLauncherAndWorkers) {
  ProcessContext context = launch(wait_and_answer, {.start_method = StartMethod::forkserver});
  const pid_t server = find_fork_server();
  ASSERT_GT(server, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::kill(server, signal);
  context.channel(0).send({.tag = "still there?"});
  EXPECT_EQ(receive_soon(context.channel(0)).tag, "here");
  // Workers are as if nothing had been changed for the server.
  ::kill(context.pids()[0], SIGTERM);
  try {
    context.join(in_seconds(kSoon));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessExited& error) {
    EXPECT_EQ(error.signal(), SIGTERM);
  }
}

// Which is told, and no reason to end: it has workers.
TEST(ForkServer, OutlivesThatItCannotOpenWhatItIsSent) {
  const LaunchOptions options{.start_method = StartMethod::forkserver};
  ProcessContext before = launch(wait_and_answer, options);
  const pid_t server = find_fork_server();
  ASSERT_GT(server, 0);
  rlimit usual{};
  ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, nullptr, &usual), 0);
  const rlimit few{4, usual.rlim_max};
  ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, &few, nullptr), 0);
  EXPECT_THROW((void)launch(wait_and_answer, options), Error);
  ASSERT_EQ(::prlimit(server, RLIMIT_NOFILE, &usual, nullptr), 0);
  ProcessContext after = launch(wait_and_answer, options);
  EXPECT_EQ(find_fork_server(), server);
  for (ProcessContext* context : {&before, &after}) {
    context->channel(0).send({.tag = "end"});
    EXPECT_TRUE(context->join(in_seconds(kSoon)));
  }
}

// Each rank runs once or not at all, and the launcher hears of an end, whatever it was.
TEST(ForkServer, MayBeKilledAtAnyMoment) {
  std::minstd_rand random(3);
  int lost = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    start_fork_server();
    const pid_t server = find_fork_server();
    ASSERT_GT(server, 0);
    const auto delay = static_cast<long>(random() % 8'000'000);
    const std::jthread killer([=] {
      const timespec wait{.tv_sec = 0, .tv_nsec = delay};
      ::nanosleep(&wait, nullptr);
      ::kill(server, SIGKILL);
    });
    const Tensor runs = Tensor::zeros_shared({4});
    try {
      ProcessContext context = launch(count_a_run, Message{.tensors = {runs}},
                                      {.nprocs = 4, .start_method = StartMethod::forkserver});
      EXPECT_TRUE(context.join(in_seconds(kSoon)));
      for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(runs.at<float>(rank), 1);
    } catch (const ProcessExited& error) {
      ++lost;
      EXPECT_TRUE(error.end().unknown || error.signal() == SIGTERM) << error.what();
    }
    for (int rank = 0; rank < 4; ++rank) EXPECT_LE(runs.at<float>(rank), 1);
  }
  EXPECT_GT(lost, 0);
  start_fork_server();
  EXPECT_TRUE(test::soon([] { return test::count_zombies() == 0; }));
}

TEST_P(Death, OfDescriptorsEndsWhatHadBeenStarted) {
  EXPECT_EQ(in_child([] {
              if (GetParam() == StartMethod::forkserver) start_fork_server();
              const int before = test::count_descriptors();
              const rlimit files{64, 64};
              if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return 2;
              for (const bool tags : {false, true}) {
                LaunchOptions options = with(40);
                options.tag_output = tags;
                expect_error(ErrorKind::limit_reached,
                             [&] { (void)launch(wait_and_answer, options); });
              }
              EXPECT_EQ(test::count_descriptors(), before);
              EXPECT_EQ(test::count_zombies(), 0);
              ProcessContext context = launch(wait_and_answer, with(1));
              context.channel(0).send({.tag = "end"});
              EXPECT_TRUE(context.join(in_seconds(kSoon)));
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST(ForkServer, IsReplacedWhenItHasDiedAndItsWorkersEndWithIt) {
  const LaunchOptions options{.nprocs = 2, .start_method = StartMethod::forkserver};
  ProcessContext context = launch(wait_and_answer, options);
  const pid_t server = find_fork_server();
  ASSERT_GT(server, 0);
  ::kill(server, SIGKILL);
  const test::Watched watched(context.pids());
  EXPECT_THROW(context.join(in_seconds(kSoon)), ProcessExited);
  EXPECT_TRUE(watched.all_end(0));
  ProcessContext next = launch(wait_and_answer, options);
  EXPECT_NE(find_fork_server(), server);
  for (int rank = 0; rank < 2; ++rank) next.channel(rank).send({.tag = "end"});
  EXPECT_TRUE(next.join(in_seconds(kSoon)));
  EXPECT_EQ(test::count_zombies(), 0);
}

// --- What is computed before a fork, and after.

// Descent on a least-squares problem; the loss it comes to.
float train() {
  const autograd::Variable x(Tensor::full({64, 8}, 0.5)), y(Tensor::full({64, 1}, 2));
  const autograd::Variable w(Tensor::zeros({8, 1}), true);
  float loss = 0;
  for (int step = 0; step < 20; ++step) {
    w.zero_grad();
    const autograd::Variable mean = autograd::mse_loss(autograd::matmul(x, w), y);
    mean.backward();
    loss = mean.value().at<float>();
    ops::axpy(w.value(), -0.1, w.grad());
  }
  return loss;
}

TEST(AfterFork, ChildrenTrainThoughTheirParentHasRunBackward) {
  const float loss = train();
  EXPECT_LT(loss, 4);
  ProcessContext context = launch_forked(
      [](Worker& worker) {
        worker.result.bytes = to_bytes(train());
        return 0;
      },
      {.nprocs = 5});
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  for (int rank = 0; rank < 5; ++rank)
    EXPECT_EQ(from_bytes<float>(context.result(rank).bytes), loss);
}

// Sizes at which some libraries start threads, which a child does not have.
TEST(AfterFork, ChildrenComputeWhatTheirParentComputed) {
  const auto compute = [] {
    const Tensor large = Tensor::ones({32769}), square = Tensor::ones({8, 8}),
                 huge = Tensor::ones({300, 300});
    using ops::matmul;
    using ops::sum;
    return sum(large).at<float>() + sum(matmul(square, square)).at<float>() +
           sum(matmul(huge, huge)).at<float>();
  };
  const float expected = 32769 + 512 + 300.F * 300 * 300;
  EXPECT_EQ(compute(), expected);
  ProcessContext context = launch_forked(
      [&](Worker& worker) {
        worker.result.bytes = to_bytes(compute());
        return 0;
      },
      {.nprocs = 2});
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(from_bytes<float>(context.result(rank).bytes), expected);
}

}  // namespace
}  // namespace shoal
