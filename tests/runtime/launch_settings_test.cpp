#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "shoal/runtime/base/fork_guard.h"
#include "shoal/runtime/ipc/message_bytes.h"
#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/process/processors.h"
#include "support/expect_error.h"
#include "support/fake_system.h"
#include "support/in_child.h"
#include "support/processes.h"
#include "support/program.h"
#include "support/start_methods.h"

// What workers are given and told, and what is refused.
namespace shoal {

using test::kSoon;
using test::receive_soon;

SHOAL_ENTRY(tell_environment)
int tell_environment(Worker& worker) {
  std::string& text = worker.result.tag;
  for (const char* name :
       {"SHOAL_RANK", "SHOAL_WORLD_SIZE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "COLOUR"}) {
    const char* value = std::getenv(name);
    text += concat(name, '=', value == nullptr ? "(none)" : value, ' ');
  }
  text += concat("threads=", worker.threads);
  return 0;
}

SHOAL_ENTRY(ask_a_worker_of_its_own)
int ask_a_worker_of_its_own(Worker& worker) {
  ProcessContext context =
      launch(tell_environment,
             {.start_method = parse_start_method(worker.args.tag), .threads_per_worker = 2});
  context.join(in_seconds(kSoon));
  worker.result = context.result(0);
  return 0;
}

SHOAL_ENTRY(tell_descriptors)
int tell_descriptors(Worker& worker) {
  worker.result.bytes = to_bytes(test::count_descriptors());
  return 0;
}

SHOAL_ENTRY(tell_processors)
int tell_processors(Worker& worker) {
  const Processors processors = find_processors();
  for (const int id : processors.ids) worker.result.tag += concat(id, ' ');
  return 0;
}

SHOAL_ENTRY(sum_arguments)
int sum_arguments(Worker& worker) {
  float sum = 0;
  for (const Tensor& tensor : worker.args.tensors) sum += tensor.at<float>(0);
  worker.result.bytes = to_bytes(sum);
  return 0;
}

struct Hyperparameters {
  double learning_rate;
  int epochs;
  bool shuffle;
};

SHOAL_ENTRY(take_everything)
int take_everything(Worker& worker) {
  const auto given = from_bytes<Hyperparameters>(worker.args.bytes);
  worker.args.queues.at(0).put(worker.args.tensors.at(0));
  worker.result.tag = concat(worker.args.tag, ' ', given.learning_rate, ' ', given.epochs, ' ',
                             given.shuffle, ' ', worker.args.fds.size());
  return 0;
}

SHOAL_ENTRY(try_to_launch)
int try_to_launch(Worker& worker) {
  ProcessContext context =
      launch(sum_arguments, {.nprocs = 1, .start_method = parse_start_method(worker.args.tag)});
  return context.join(in_seconds(kSoon)) ? 0 : 1;
}

namespace {

class Settings : public test::WithStartMethod {};
SHOAL_FOR_ALL_START_METHODS(Settings);

TEST_P(Settings, ReachTheWorkersEnvironment) {
  ::setenv("OMP_NUM_THREADS", "7", 1);
  ::unsetenv("OPENBLAS_NUM_THREADS");
  LaunchOptions options = with(2);
  options.threads_per_worker = 3;
  options.environment = {{"COLOUR", "a = b, c"}};
  ProcessContext context = launch(tell_environment, options);
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  for (const int rank : {0, 1}) {
    const std::string told = context.result(rank).tag;
    for (const std::string& part :
         {concat("SHOAL_RANK=", rank, " SHOAL_WORLD_SIZE=2 OMP_NUM_THREADS=7 "),
          std::string("OPENBLAS_NUM_THREADS=3 COLOUR=a = b, c threads=3")})
      EXPECT_NE(told.find(part), std::string::npos) << told;
  }
  EXPECT_EQ(std::getenv("COLOUR"), nullptr);
  EXPECT_EQ(std::getenv("SHOAL_RANK"), nullptr);
  ::unsetenv("OMP_NUM_THREADS");
}

// What the outer launch set, the inner one sets again, for its own workers.
TEST_P(Settings, ReachWorkersOfWorkers) {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) ::unsetenv(name);
  LaunchOptions options = with(1);
  options.threads_per_worker = 5;
  const Message args{.tag = std::string(to_string(GetParam()))};
  ProcessContext context = launch(ask_a_worker_of_its_own, args, options);
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  EXPECT_NE(context.result(0).tag.find("OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2"),
            std::string::npos);
}

TEST_P(Settings, LeaveAWorkerWithItsOwnDescriptorsAlone) {
  // Of the launcher's own files a forked worker has copies.
  const ProcessContext other = launch(tell_descriptors, with(1));
  ProcessContext context = launch(tell_descriptors, with(4));
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  const int of_first = from_bytes<int>(context.result(0).bytes);
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(from_bytes<int>(context.result(rank).bytes), of_first) << rank;
}

TEST_P(Settings, DivideTheProcessorsAmongTheWorkers) {
  const Processors all = find_processors();
  const int workers = static_cast<int>(all.ids.size());
  LaunchOptions options = with(workers + 1);
  options.pin_cpus = true;
  ProcessContext context = launch(tell_processors, options);
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  for (int rank = 0; rank <= workers; ++rank) {
    EXPECT_EQ(context.result(rank).tag,
              concat(all.ids[static_cast<std::size_t>(rank % workers)], ' '));
  }
  EXPECT_EQ(find_processors().ids, all.ids);
}

TEST_P(Settings, CarryThousandsOfTensorsUnderALowLimitOfDescriptors) {
  EXPECT_EQ(in_child([] {
              const rlimit files{256, 256};
              if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return 2;
              Message args;
              for (int i = 0; i < 3000; ++i) args.tensors.push_back(Tensor::ones({5}, DType::f32));
              ProcessContext context = launch(sum_arguments, args, with(3));
              if (!context.join(in_seconds(kSoon))) return 3;
              for (int rank = 0; rank < 3; ++rank)
                if (from_bytes<float>(context.result(rank).bytes) != 3000) return 4;
              return 0;
            }),
            0);
}

TEST_P(Settings, CarryAllThatAMessageHas) {
  TensorQueue queue(4);
  Message args{.tag = "word",
               .bytes = to_bytes(Hyperparameters{0.5, 3, true}),
               .tensors = {Tensor::full({2}, 4, DType::f32)},
               .queues = {queue}};
  args.fds.emplace_back(::dup(STDERR_FILENO));
  ProcessContext context = launch(take_everything, args, with(2));
  ASSERT_TRUE(context.join(in_seconds(kSoon)));
  EXPECT_EQ(context.result(1).tag, "word 0.5 3 1 1");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(queue.get(in_seconds(kSoon))->at<float>(1), 4);
}

TEST_P(Settings, AllowOrForbidWorkersOfWorkers) {
  LaunchOptions options = with(1);
  const Message args{.tag = std::string(to_string(GetParam()))};
  EXPECT_TRUE(launch(try_to_launch, args, options).join(in_seconds(kSoon)));
  options.allow_children = false;
  try {
    launch(try_to_launch, args, options).join(in_seconds(kSoon));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessRaised& error) {
    EXPECT_NE(error.message().find("allow_children"), std::string::npos) << error.message();
  }
}

// It would run again and again, and start itself.
TEST(StartMethods, ThatRunMainAgainTellAProgramWhoseMainForgot) {
  for (const StartMethod method : {StartMethod::spawn, StartMethod::forkserver}) {
    Program program({WITHOUT_CHILD_MAIN, std::string(to_string(method))});
    EXPECT_EQ(program.wait(in_seconds(kSoon)), 3);
    EXPECT_TRUE(program.out().starts_with("main\nlaunch: ")) << program.out();
    EXPECT_NE(program.out().find("shoal::child_main(argc, argv)"), std::string::npos);
  }
  EXPECT_EQ(Program({WITHOUT_CHILD_MAIN, "fork"}).wait(in_seconds(kSoon)), 0);
}

TEST(StartMethods, AreListedNamedAndChosen) {
  EXPECT_EQ(get_all_start_methods().size(), 3U);
  for (const StartMethod method : get_all_start_methods())
    EXPECT_EQ(parse_start_method(to_string(method)), method);
  expect_error(
      ErrorKind::invalid_argument, [] { (void)parse_start_method("Fork"); }, "'Fork'",
      "forkserver");
  EXPECT_EQ(LaunchOptions{}.start_method, StartMethod::spawn);
  set_default_start_method(StartMethod::forkserver);
  EXPECT_EQ(LaunchOptions{}.start_method, StartMethod::forkserver);
  set_default_start_method(StartMethod::spawn);
}

TEST(MessageBytes, OfAnotherSizeAreRefused) {
  const auto bytes = to_bytes(Hyperparameters{0.5, 3, true});
  EXPECT_EQ(from_bytes<Hyperparameters>(bytes).epochs, 3);
  expect_error(
      ErrorKind::malformed, [&] { (void)from_bytes<int>(bytes); }, "16 bytes", "of 4");
}

// --- Forks that would not be safe.

// A thread that lives until told otherwise.
class Bystander {
 public:
  ~Bystander() {
    {
      const std::scoped_lock hold(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_{[this] {
    std::unique_lock hold(mutex_);
    ended_.wait(hold, [this] { return done_; });
  }};
};

TEST(ForkSafety, AProcessWithThreadsIsNotForked) {
  LaunchOptions options{.start_method = StartMethod::fork};
  {
    const Bystander bystander;
    expect_error(
        ErrorKind::unsupported, [&] { (void)launch(sum_arguments, options); }, "1 other thread",
        "forkserver", "fork_with_threads");
    for (const StartMethod method : {StartMethod::spawn, StartMethod::forkserver})
      EXPECT_TRUE(launch(sum_arguments, {.start_method = method}).join(in_seconds(kSoon)));
    options.fork_with_threads = true;
    EXPECT_TRUE(launch(sum_arguments, options).join(in_seconds(kSoon)));
  }
  options.fork_with_threads = false;
  EXPECT_TRUE(launch(sum_arguments, options).join(in_seconds(kSoon)));
}

constinit ForkGuard guard("the guarded");

// What stands in for CUDA until that is here.
TEST(ForkSafety, WhatDoesNotSurviveAForkIsNotForkedNorUsedInAChild) {
  EXPECT_EQ(
      in_child([] {
        guard.use();
        guard.use();
        expect_error(
            ErrorKind::unsupported,
            [] { (void)launch(sum_arguments, {.start_method = StartMethod::fork}); }, "the guarded",
            "spawn");
        EXPECT_TRUE(
            launch(sum_arguments, {.start_method = StartMethod::spawn}).join(in_seconds(kSoon)));
        // Forked behind our back.
        EXPECT_EQ(in_child([] {
                    expect_error(
                        ErrorKind::unsupported, [] { guard.use(); }, "the guarded",
                        "spawn or forkserver");
                    return testing::Test::HasFailure() ? 1 : 0;
                  }),
                  0);
        return testing::Test::HasFailure() ? 1 : 0;
      }),
      0);
  // Nobody has used it here.
  EXPECT_TRUE(launch(sum_arguments, {.start_method = StartMethod::fork}).join(in_seconds(kSoon)));
}

// --- Processors.

TEST(Processors, AreThoseOfTheAffinity) {
  EXPECT_EQ(in_child([] {
              const Processors all = find_processors();
              cpu_set_t one;
              CPU_ZERO(&one);
              CPU_SET(all.ids.back(), &one);
              if (::sched_setaffinity(0, sizeof one, &one) != 0) return 2;
              const Processors left = find_processors();
              return left.ids == std::vector{all.ids.back()} && left.count == 1 ? 0 : 1;
            }),
            0);
}

TEST(Processors, AreFewerWhereTheCgroupSaysSo) {
  test::FakeSystem v2;
  v2.put("/proc/self/cgroup", "0::/jobs/a\n");
  v2.put("/proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  v2.put("/sys/fs/cgroup/jobs/a/cpu.max", "max 100000\n");
  const int all = static_cast<int>(find_processors(v2.root()).ids.size());
  EXPECT_EQ(find_processors(v2.root()).count, all);
  v2.put("/sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");
  EXPECT_EQ(find_processors(v2.root()).count, 1);
  EXPECT_EQ(find_processors(v2.root()).ids.size(), static_cast<std::size_t>(all));
  v2.put("/sys/fs/cgroup/jobs/cpu.max", "900000000 100000\n");
  EXPECT_EQ(find_processors(v2.root()).count, all);
  v2.put("/sys/fs/cgroup/jobs/cpu.max", "much\n");
  EXPECT_EQ(find_processors(v2.root()).count, all);

  test::FakeSystem v1;
  v1.put("/proc/self/cgroup", "4:cpu,cpuacct:/a\n3:memory:/b\n");
  v1.put("/proc/self/mountinfo",
         "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  v1.put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  v1.put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(find_processors(v1.root()).count, all);
  v1.put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(find_processors(v1.root()).count, 1);
}

TEST(Processors, AreDealtOutInEqualShares) {
  const Processors six{.ids = {0, 1, 2, 5, 6, 7}, .count = 6};
  EXPECT_EQ(processors_of(0, 2, six), (std::vector{0, 1}));
  EXPECT_EQ(processors_of(2, 2, six), (std::vector{6, 7}));
  EXPECT_EQ(processors_of(3, 2, six), (std::vector{0, 1}));
  EXPECT_EQ(processors_of(1, 4, six), (std::vector{0, 1, 2, 5}));
  EXPECT_EQ(processors_of(5, 100, six), six.ids);
  EXPECT_EQ(processors_of(4, 1, six), (std::vector{6}));
}

}  // namespace
}  // namespace shoal
