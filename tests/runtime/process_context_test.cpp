#include "shoal/runtime/process/process_context.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "shoal/runtime/ipc/message_bytes.h"
#include "shoal/runtime/process/launch.h"
#include "support/expect_error.h"
#include "support/scratch_directory.h"
#include "support/start_methods.h"
#include "support/usage.h"

// What a launcher learns of its workers, and what it can do to them.
namespace shoal {

using test::kSoon;
using test::receive_soon;

SHOAL_ENTRY(leave_a_result)
int leave_a_result(Worker& worker) {
  worker.result.tag = concat("of ", worker.rank);
  worker.result.bytes = to_bytes(worker.rank);
  worker.result.tensors.push_back(
      Tensor::full({1000}, static_cast<float>(worker.rank), DType::f32));
  worker.result.tensors.push_back(worker.result.tensors[0].view({10, 100}));
  return 0;
}

SHOAL_ENTRY(leave_a_large_result)
int leave_a_large_result(Worker& worker) {
  worker.result.bytes.assign(std::size_t{8} << 20, std::byte{7});
  for (int i = 0; i < 1000; ++i)
    worker.result.tensors.push_back(Tensor::full({3}, static_cast<float>(i), DType::f32));
  return 0;
}

// The word says how: of each rank, the ones after the last.
SHOAL_ENTRY(end_as_told)
int end_as_told(Worker& worker) {
  const std::string how = receive_soon(worker.parent).tag;
  if (how == "throw") throw std::out_of_range(concat("rank ", worker.rank));
  if (how == "abort") std::abort();
  if (how == "twelve") return 12;
  if (how == "256") return 256;
  if (how == "reading") {
    // A thread that holds the lock of its stream for as long as nothing comes.
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return 3;
    std::FILE* stream = ::fdopen(ends[0], "r");
    std::thread([stream] { (void)std::fgetc(stream); }).detach();
    ::poll(nullptr, 0, 20);
  }
  if (how == "exit") std::exit(0);
  return 0;
}

// Rank 0 fails; the others write down what they know when they hear of it, or after a while.
SHOAL_ENTRY(rank_zero_fails_others_finish)
int rank_zero_fails_others_finish(Worker& worker) {
  if (worker.rank == 0) return 1;
  const Tensor& marks = worker.args.tensors.at(0);
  ::signal(SIGTERM, SIG_IGN);
  // The launcher's channel stays silent: it waits.
  (void)worker.parent.receive(in_ms(150));
  marks.at<float>(worker.rank) = 1;
  return 0;
}

SHOAL_ENTRY(all_throw)
int all_throw(Worker& worker) { throw std::runtime_error(concat("rank ", worker.rank)); }

// Neither inlined nor local, so that its name is there to be found.
[[gnu::noinline]] void give_up_for_good(Worker& worker) {
  // That one is over and done with.
  try {
    throw std::runtime_error("no matter");
  } catch (const std::exception&) {
  }
  throw std::logic_error(concat("rank ", worker.rank, " gives up"));
}

SHOAL_ENTRY(throw_far_below)
int throw_far_below(Worker& worker) {
  give_up_for_good(worker);
  return 0;
}

SHOAL_ENTRY(write_lines)
int write_lines(Worker& worker) {
  std::printf("one\ntwo of %d\n", worker.rank);
  std::fprintf(stderr, "trouble\n");
  std::printf("cut");
  std::fflush(stdout);
  if (worker.rank == 1) std::abort();
  return 0;
}

namespace {

class Context : public test::WithStartMethod {};
SHOAL_FOR_ALL_START_METHODS(Context);

TEST_P(Context, ReturnsWhatTheWorkersLeft) {
  ProcessContext context = launch(leave_a_result, with(3));
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
  for (const int rank : {2, 0, 1}) {
    const Message result = context.result(rank);
    EXPECT_EQ(result.tag, concat("of ", rank));
    EXPECT_EQ(from_bytes<int>(result.bytes), rank);
    ASSERT_EQ(result.tensors.size(), 2U);
    EXPECT_EQ(result.tensors[0].at<float>(999), static_cast<float>(rank));
    EXPECT_EQ(result.tensors[0].storage(), result.tensors[1].storage());
  }
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)context.result(0); }, "taken before");
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)context.result(3); }, "rank 3 of 3");
}

TEST_P(Context, ReturnsResultsOfAnySize) {
  ProcessContext context = launch(leave_a_large_result, with(2));
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
  for (const int rank : {0, 1}) {
    const Message result = context.result(rank);
    EXPECT_EQ(result.bytes.size(), std::size_t{8} << 20);
    ASSERT_EQ(result.tensors.size(), 1000U);
    EXPECT_EQ(result.tensors[999].at<float>(2), 999);
  }
}

TEST_P(Context, HasNoResultOfWhoRunsOrFailed) {
  ProcessContext context = launch(end_as_told, with(2));
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)context.result(0); }, "has not ended");
  context.channel(0).send({.tag = "twelve"});
  EXPECT_EQ(context.wait_any(in_seconds(kSoon)), 0);
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)context.result(0); }, "has failed");
  context.channel(1).send({.tag = "exit"});
  EXPECT_EQ(context.wait_any(in_seconds(kSoon)), 1);
  EXPECT_TRUE(context.result(1).tag.empty());
}

TEST_P(Context, TellsOfEachEndOnce) {
  ProcessContext context = launch(end_as_told, with(4));
  EXPECT_EQ(context.wait_any(in_ms(1)), std::nullopt);
  const std::pair<int, const char*> ends[] = {
      {2, "well"}, {0, "throw"}, {3, "twelve"}, {1, "abort"}};
  for (const auto& [rank, how] : ends) {
    EXPECT_EQ(context.end_of(rank), std::nullopt);
    context.channel(rank).send({.tag = how});
    EXPECT_EQ(context.wait_any(in_seconds(kSoon)), rank);
    EXPECT_TRUE(context.end_of(rank));
  }
  EXPECT_EQ(context.wait_any(in_seconds(kSoon)), std::nullopt);
  EXPECT_TRUE(context.end_of(2)->succeeded());
  context.throw_if_failed(2);
  EXPECT_THROW(context.throw_if_failed(0), ProcessRaised);
  EXPECT_EQ(context.end_of(3)->exit_code, 12);
  EXPECT_EQ(context.end_of(1)->signal, SIGABRT);
  try {
    context.throw_if_failed(1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessExited& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_NE(std::string(error.what()).find("SIGABRT"), std::string::npos);
  }
  // The first failure, though that of rank 1 came later and rank 2 had succeeded before.
  EXPECT_THROW(context.join(), ProcessRaised);
}

// Of which the kernel would keep nothing.
TEST_P(Context, TakesNoFailureForSuccess) {
  ProcessContext context = launch(end_as_told, with(1));
  context.channel(0).send({.tag = "256"});
  EXPECT_THROW(context.join(in_seconds(kSoon)), ProcessExited);
}

TEST_P(Context, WaitsForNoThreadThatAWorkerLeftReading) {
  ProcessContext context = launch(end_as_told, with(1));
  context.channel(0).send({.tag = "reading"});
  EXPECT_TRUE(context.join(in_seconds(kSoon)));
}

TEST_P(Context, ReportsALateFailureAfterEarlySuccess) {
  ProcessContext context = launch(end_as_told, with(2));
  context.channel(0).send({.tag = "well"});
  EXPECT_EQ(context.wait_any(in_seconds(kSoon)), 0);
  EXPECT_FALSE(context.join(in_ms(1)));
  context.channel(1).send({.tag = "throw"});
  EXPECT_THROW(context.join(in_seconds(kSoon)), ProcessRaised);
}

TEST_P(Context, ReportsOneWhenAllThrow) {
  ProcessContext context = launch(all_throw, with(4));
  try {
    context.join(in_seconds(kSoon));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessRaised& error) {
    EXPECT_EQ(error.message(), concat("rank ", error.rank()));
  }
}

TEST_P(Context, SaysWhereAnExceptionWasThrown) {
  if (test::kSanitized) GTEST_SKIP() << "SKIP: a sanitizer's library stands before the hook";
  ProcessContext context = launch(throw_far_below, with(1));
  try {
    context.join(in_seconds(kSoon));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessRaised& error) {
    EXPECT_EQ(error.message(), "rank 0 gives up");
    EXPECT_NE(error.stack_trace().find("give_up_for_good"), std::string::npos)
        << error.stack_trace();
    EXPECT_NE(std::string(error.what()).find("give_up_for_good"), std::string::npos);
  }
}

TEST_P(Context, LetsTheOthersFinishForAsLongAsItIsTold) {
  const Tensor marks = Tensor::zeros({3}, DType::f32);
  LaunchOptions options = with(3);
  options.linger_seconds = kSoon;
  ProcessContext context =
      launch(rank_zero_fails_others_finish, Message{.tensors = {marks}}, options);
  EXPECT_THROW(context.join(), ProcessExited);
  EXPECT_EQ(marks.at<float>(1) + marks.at<float>(2), 2);
  EXPECT_TRUE(context.end_of(1)->succeeded());
}

// The lines of a program that launches, which is a process of its own since its standard streams
// are what matters.
TEST_P(Context, TagsWhatTheWorkersWrite) {
  const ScratchDirectory scratch;
  const std::string out = scratch.file("out"), err = scratch.file("err");
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    constexpr int kFlags = O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC;
    ::dup2(::open(out.c_str(), kFlags, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), kFlags, 0600), STDERR_FILENO);
    LaunchOptions options = with(2);
    options.tag_output = true;
    options.linger_seconds = kSoon;  // until the other one has written, too
    int code = 3;
    try {
      ProcessContext context = launch(write_lines, options);
      context.join(in_seconds(kSoon));
    } catch (const ProcessExited&) {
      code = 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(code);
  }
  int status = -1;
  ::waitpid(launcher, &status, 0);
  EXPECT_EQ(status, 0);
  const auto lines = [](const std::string& path) {
    std::multiset<std::string> all;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) all.insert(line);
    return all;
  };
  EXPECT_EQ(lines(out), (std::multiset<std::string>{"[0] one", "[0] two of 0", "[0] cut", "[1] one",
                                                    "[1] two of 1", "[1] cut"}));
  const auto errors = lines(err);
  EXPECT_TRUE(errors.contains("[0] trouble") && errors.contains("[1] trouble"))
      << testing::PrintToString(errors);
}

}  // namespace
}  // namespace shoal
