#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "shoal/runtime/ipc/message.h"
#include "shoal/runtime/ipc/mutex.h"
#include "shoal/runtime/ipc/tensor_queue.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "support/strategies.h"
#include "support/usage.h"

// Processes that exchange tensors while one of them, at a random instant, is killed.
namespace shoal {
namespace {

constexpr int kProducers = 3, kConsumers = 3, kItems = 12;
constexpr double kSoon = 30;

// A tensor that shows whether its bytes are the ones that were written together.
Tensor marked(std::mt19937& engine) {
  const std::int64_t count = 2 + static_cast<std::int64_t>(engine() % (1u << (engine() % 17)));
  const Tensor tensor = Tensor::empty_shared({count}, DType::i64);
  const auto values = tensor.span<std::int64_t>();
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    sum += values[i] = static_cast<std::int64_t>(engine());
  values[0] = sum;
  return tensor;
}

bool is_sound(const Tensor& tensor) {
  const auto values = tensor.span<std::int64_t>();
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < values.size(); ++i) sum += values[i];
  return values[0] == sum;
}

struct Child {
  pid_t pid;
  Fd watch;
};

Child start(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int code = 0;
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "storm: %s\n", error.what());
      code = 1;
    }
    SegmentPool::instance().leave_named_segments();
    ::_exit(code);
  }
  return {pid, open_pidfd(pid)};
}

// The exit status; SIGKILL, with a failure, for who does not end.
int end_of(const Child& child) {
  if (!wait_ready(child.watch.get(), POLLIN, in_seconds(kSoon))) {
    ADD_FAILURE() << "a process hangs";
    ::kill(child.pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  return status;
}

// Two counts that are equal whenever nobody is at work on them.
struct Counts {
  Mutex mutex;
  Tensor both = Tensor::zeros_shared({2}, DType::i64);

  void count() {
    auto lock = mutex.lock(in_seconds(kSoon));
    const auto values = both.span<std::int64_t>();
    if (lock.dead_owner()) {
      values[1] = values[0];
      lock.make_consistent();
    }
    if (values[0] != values[1]) throw std::runtime_error("two had the lock");
    ++values[0];
    ++values[1];
  }
};

void produce(TensorQueue& queue, Counts& counts, unsigned seed) {
  std::mt19937 engine(seed);
  try {
    for (int i = 0; i < kItems; ++i) {
      counts.count();
      queue.put(marked(engine), in_seconds(kSoon));
    }
  } catch (const Error& error) {
    // The one consumer that was left can be the one that is killed.
    if (error.kind() != ErrorKind::peer_gone) throw;
  }
}

// Sends every second on, so that what came from one process is held by several.
void consume(TensorQueue& queue, TensorQueue& onward, Counts& counts) {
  for (int i = 0; auto tensor = queue.get(in_seconds(kSoon)); ++i) {
    if (!is_sound(*tensor)) throw std::runtime_error("a tensor was overwritten");
    counts.count();
    if (i % 2 == 0) onward.put(*tensor, in_seconds(kSoon));
  }
  if (!queue.is_closed()) throw std::runtime_error("the end did not come");
}

void round_of(std::mt19937& engine) {
  TensorQueue work(8), onward(200);
  Counts counts;
  // Some of what is killed with its holders is the parent's.
  for (int i = 0; i < 6; ++i) work.put(marked(engine));
  std::vector<Child> children;
  for (int p = 0; p < kProducers; ++p) {
    const unsigned seed = engine();
    children.push_back(start([&, seed] {
      onward = TensorQueue(1);
      work = work.put_end();
      produce(work, counts, seed);
    }));
  }
  for (int c = 0; c < kConsumers; ++c) {
    children.push_back(start([&] {
      work = work.get_end();
      onward = onward.put_end();
      consume(work, onward, counts);
    }));
  }
  work = TensorQueue(1);
  onward = onward.get_end();
  const std::size_t victim = engine() % children.size();
  // At a random instant: once so many tensors have come through, from the first to more than ever
  // do, and the others have run for a while.
  const auto kill_after = static_cast<int>(engine() % 28);
  int received = 0;
  bool killed = false;
  const auto kill_at_last = [&] {
    for (unsigned turns = engine() % 64; turns > 0; --turns) ::sched_yield();
    ::kill(children[victim].pid, SIGKILL);
    killed = true;
  };
  if (kill_after == 0) kill_at_last();
  while (auto tensor = onward.get(in_seconds(kSoon))) {
    EXPECT_TRUE(is_sound(*tensor));
    if (++received == kill_after) kill_at_last();
  }
  if (!killed) kill_at_last();
  EXPECT_TRUE(onward.is_closed());
  EXPECT_LE(received, (kProducers * kItems + 6) / 2 + kConsumers);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const int status = end_of(children[i]);
    if (i != victim)
      EXPECT_EQ(status, 0);
    else
      EXPECT_TRUE(status == 0 || WTERMSIG(status) == SIGKILL) << status;
  }
  counts.count();
}

class Storm : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, Storm, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

TEST_P(Storm, LeavesNothingBehindAndSpoilsNothing) {
  // Names of its own, so that no other test's process tidies up for it.
  const std::string prefix = concat("shoal-storm-", ::getpid(), '-');
  shm_directory::set_name_prefix(prefix);
  SegmentPool& pool = SegmentPool::instance();
  pool.trim();
  const int fds = test::open_descriptors();
  std::mt19937 engine(20);
  int maps = 0;
  // To fork a process with a sanitizer's memory takes a tenth of a second, six times a round.
  constexpr int kRounds = test::kSanitized ? 40 : 200;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE(concat("round ", round));
    round_of(engine);
    // All who held anything have ended: what is the parent's is found again, each time.
    pool.trim(SIZE_MAX);
    const auto s = pool.statistics();
    EXPECT_EQ(s.live_bytes, 0u);
    EXPECT_LE(s.cached_bytes, std::size_t{8} << 20) << "enough for any round's tensors";
    if (round == 20) maps = test::mappings();
  }
  pool.trim();
  const auto s = pool.statistics();
  EXPECT_EQ(s.live_bytes, 0u);
  EXPECT_EQ(s.segments, 0u);
  EXPECT_EQ(s.attached_segments, 0u);
  EXPECT_EQ(test::open_descriptors(), fds);
  if (!test::kSanitized) {
    EXPECT_LE(test::mappings(), maps);
  }
  reap_orphans();
  EXPECT_EQ(shm_directory::list(prefix), std::vector<std::string>{});
}

}  // namespace
}  // namespace shoal
