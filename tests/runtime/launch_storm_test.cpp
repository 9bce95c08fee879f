#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <random>

#include "shoal/runtime/ipc/message_bytes.h"
#include "shoal/runtime/process/launch.h"
#include "support/processes.h"
#include "support/start_methods.h"
#include "support/usage.h"

// Workers that end in every way there is, at random, and launchers that are killed: each time the
// context says what happened, and nobody and nothing stays behind.
namespace shoal {
namespace {

using test::kSoon;

constexpr int kLaunches = 300;
constexpr int kWorkers = 4;

enum class Fate : int {
  succeed,
  throw_it,
  exit_with_code,
  leave_by_exit,
  abort_it,
  fault,
  be_killed,
  spin,
  spin_deaf,
};
constexpr int kFates = 9;

// What one worker is told.
struct Orders {
  Fate fate = Fate::succeed;
  int code = 0;      // of exit_with_code and leave_by_exit
  int delay_us = 0;  // before
};

}  // namespace

SHOAL_ENTRY(meet_its_fate)
int meet_its_fate(Worker& worker) {
  const auto orders = from_bytes<std::array<Orders, kWorkers>>(
      worker.args.bytes)[static_cast<std::size_t>(worker.rank)];
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const timespec delay{.tv_sec = 0, .tv_nsec = orders.delay_us * 1000L};
  ::nanosleep(&delay, nullptr);
  switch (orders.fate) {
    case Fate::succeed:
      worker.result.bytes = to_bytes(worker.rank);
      return 0;
    case Fate::throw_it:
      throw std::domain_error(concat("rank ", worker.rank));
    case Fate::exit_with_code:
      return orders.code;
    case Fate::leave_by_exit:
      ::_exit(orders.code);
    case Fate::abort_it:
      // A sanitizer would say where.
      ::signal(SIGABRT, SIG_DFL);
      ::raise(SIGABRT);
      break;
    case Fate::fault: {
      ::signal(SIGSEGV, SIG_DFL);
      // A page that nobody may touch.
      void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      *static_cast<volatile int*>(page) = 1;
      break;
    }
    case Fate::be_killed:
      ::raise(SIGKILL);
      break;
    case Fate::spin_deaf:
      ::signal(SIGTERM, SIG_IGN);
      [[fallthrough]];
    case Fate::spin:
      for (std::atomic<std::uint64_t> steps{0};;) ++steps;
  }
  return 99;
}

namespace {

bool fails(const Orders& orders) {
  return orders.fate != Fate::succeed && orders.fate != Fate::spin &&
         orders.fate != Fate::spin_deaf;
}

// Whether an end is the one that was ordered.
bool is_as_ordered(const Orders& orders, const WorkerEnd& end) {
  switch (orders.fate) {
    case Fate::succeed:
      return end.succeeded();
    case Fate::throw_it:
      return end.exit_code == 1 && end.signal == 0;
    case Fate::exit_with_code:
    case Fate::leave_by_exit:
      return end.exit_code == orders.code && end.signal == 0;
    case Fate::abort_it:
      return end.signal == SIGABRT;
    case Fate::fault:
      return end.signal == SIGSEGV;
    case Fate::be_killed:
      return end.signal == SIGKILL;
    case Fate::spin:
    case Fate::spin_deaf:
      return false;
  }
  return false;
}

std::array<Orders, kWorkers> draw_orders(std::minstd_rand& random) {
  std::array<Orders, kWorkers> all;
  for (Orders& orders : all) {
    // Half of them do well, or all launches would fail.
    const auto fate = static_cast<int>(random() % (2 * kFates));
    orders = {.fate = fate < kFates ? static_cast<Fate>(fate) : Fate::succeed,
              .code = 2 + static_cast<int>(random() % 200),
              .delay_us = static_cast<int>(random() % 3000)};
  }
  return all;
}

StartMethod draw_method(std::minstd_rand& random) {
  // A spawned program takes long to start under a sanitizer.
  const unsigned draw = random() % (test::kSanitized ? 12 : 3);
  return draw == 0       ? StartMethod::spawn
         : draw % 2 == 1 ? StartMethod::fork
                         : StartMethod::forkserver;
}

ProcessContext launch_one(const std::array<Orders, kWorkers>& orders, StartMethod method) {
  return launch(meet_its_fate, Message{.bytes = to_bytes(orders)},
                {.nprocs = kWorkers, .start_method = method, .grace_seconds = 0.01});
}

void expect_the_failure(const std::array<Orders, kWorkers>& orders, const ProcessFailed& error) {
  const Orders& of_rank = orders.at(static_cast<std::size_t>(error.rank()));
  EXPECT_TRUE(fails(of_rank)) << error.what();
  if (const auto* raised = dynamic_cast<const ProcessRaised*>(&error)) {
    EXPECT_EQ(of_rank.fate, Fate::throw_it) << error.what();
    EXPECT_EQ(raised->type(), "std::domain_error");
    EXPECT_EQ(raised->message(), concat("rank ", error.rank()));
  } else if (const auto* exited = dynamic_cast<const ProcessExited*>(&error)) {
    EXPECT_NE(of_rank.fate, Fate::throw_it) << error.what();
    EXPECT_TRUE(
        is_as_ordered(of_rank, {.exit_code = exited->exit_code(), .signal = exited->signal()}))
        << error.what();
  }
}

// A launch that its launcher sees through.
void run_through(std::minstd_rand& random) {
  const auto orders = draw_orders(random);
  const StartMethod method = draw_method(random);
  ProcessContext context = launch_one(orders, method);
  const test::Watched watched(context.pids());
  const bool any_fails = std::ranges::any_of(orders, fails);
  const bool any_spins = std::ranges::any_of(orders, [](const Orders& one) {
    return one.fate == Fate::spin || one.fate == Fate::spin_deaf;
  });
  try {
    if (!any_fails && any_spins) {
      const auto well = std::ranges::count(orders, Fate::succeed, &Orders::fate);
      for (int i = 0; i < well; ++i) EXPECT_TRUE(context.wait_any(in_seconds(kSoon)));
      context.terminate(0.01);
    } else {
      EXPECT_EQ(context.join(in_seconds(kSoon)), !any_fails);
    }
    EXPECT_FALSE(any_fails) << "nothing was thrown";
  } catch (const ProcessFailed& error) {
    expect_the_failure(orders, error);
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    const auto end = context.end_of(rank);
    ASSERT_TRUE(end) << rank;
    const Orders& of_rank = orders[static_cast<std::size_t>(rank)];
    // Or it was ended before it came to it, with the others.
    EXPECT_TRUE(is_as_ordered(of_rank, *end) || end->signal == SIGTERM || end->signal == SIGKILL)
        << to_string(method) << ", rank " << rank << ": fate " << static_cast<int>(of_rank.fate)
        << ", code " << end->exit_code << ", signal " << end->signal;
    if (end->succeeded()) {
      EXPECT_EQ(from_bytes<int>(context.result(rank).bytes), rank);
    }
  }
  EXPECT_TRUE(watched.all_end(0));
}

// A launch whose launcher is killed, at any moment of it.
void kill_the_launcher(std::minstd_rand& random) {
  const auto orders = draw_orders(random);
  const StartMethod method = draw_method(random);
  const auto delay = static_cast<long>(random() % 15'000'000);
  test::Peer launcher([&](Channel& channel) {
    ::setpgid(0, 0);
    channel.send({});
    ProcessContext context = launch_one(orders, method);
    try {
      context.join();
    } catch (const ProcessFailed&) {
      // That is not what is tested here.
    }
    (void)test::receive_soon(channel);
  });
  (void)test::receive_soon(launcher.channel());
  const timespec wait{.tv_sec = 0, .tv_nsec = delay};
  ::nanosleep(&wait, nullptr);
  launcher.kill();
  EXPECT_EQ(launcher.wait(), -SIGKILL);
  // The group has all that it started, also a moment ago.
  EXPECT_TRUE(test::soon([&] { return !test::group_lives(launcher.pid()); })) << to_string(method);
}

TEST(Storm, EachContextSaysWhatHappenedAndNothingStays) {
  start_fork_server();
  std::minstd_rand random(11);
  // What is made once, is made before it is counted.
  for (int i = 0; i < 8; ++i) run_through(random);
  const int descriptors = test::count_descriptors();
  for (int i = 0; i < kLaunches && !HasFailure(); ++i) {
    SCOPED_TRACE(concat("launch ", i));
    if (i % 5 == 4) {
      kill_the_launcher(random);
    } else {
      run_through(random);
    }
  }
  EXPECT_EQ(test::count_descriptors(), descriptors);
  EXPECT_EQ(test::count_zombies(), 0);
}

}  // namespace
}  // namespace shoal
