#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/tensor_queue.h"
#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/segment_pool.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "support/in_child.h"
#include "support/peer.h"
#include "support/strategies.h"
#include "support/usage.h"

// What people who share tensors between processes have reported, replayed. Each names a report.
namespace shoal {

SHOAL_ENTRY(aliasing_worker)
int aliasing_worker(Worker& worker) {
  auto& views = worker.args.tensors;
  views.at(1).at<float>(0) = 50;
  const bool aliased = views[0].storage() == views[1].storage() &&
                       views[0].storage() == views[2].storage() && views[0].at<float>(1) == 50 &&
                       views[2].at<float>(1) == 50;
  return aliased ? 0 : 1;
}

SHOAL_ENTRY(counting_worker)
int counting_worker(Worker& worker) {
  double total = 0;
  for (const Tensor& tensor : worker.args.tensors) total += tensor.item<float>();
  return total == 3000 ? 0 : 1;
}

namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class FieldCase : public testing::TestWithParam<SharingStrategy> {
 protected:
  test::UsingStrategy strategy_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Strategies, FieldCase, testing::ValuesIn(get_all_sharing_strategies()),
                         test::strategy_name);

// A /dev/shm of so many bytes, for this process alone. False where that is not allowed.
bool with_own_shm(std::size_t nbytes) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return ::mount("tmpfs", "/dev/shm", "tmpfs", 0, concat("size=", nbytes).c_str()) == 0;
}

constexpr int kNotAllowed = 77;

// pytorch#5247: SIGBUS at the first write to shared memory that /dev/shm has no room for.
TEST_P(FieldCase, ASmallDevShmIsAnErrorAndNeverASigbus) {
  const int status = in_child([] {
    if (!with_own_shm(64 * kMiB)) return kNotAllowed;
    try {
      const Tensor huge = Tensor::zeros_shared({256 * static_cast<std::int64_t>(kMiB)});
      huge.fill_(1);  // 1 GB; the file_descriptor strategy is not limited by /dev/shm
      if (GetParam() == SharingStrategy::file_system) return 1;
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const char* word : {"wanted", "free", "--shm-size"})
        if (text.find(word) == std::string::npos) return 2;
      if (error.kind() != ErrorKind::no_space) return 3;
    }
    // What was made before another program took the rest stays writable to its last byte.
    const Tensor tensor = Tensor::empty_shared({4 * static_cast<std::int64_t>(kMiB)});
    const Fd other{::open("/dev/shm/other", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
    const std::vector<char> junk(kMiB);
    while (::write(other.get(), junk.data(), junk.size()) > 0) {
    }
    tensor.fill_(3);
    return tensor.at<float>(4 * static_cast<std::int64_t>(kMiB) - 1) == 3 ? 0 : 4;
  });
  if (status == kNotAllowed) GTEST_SKIP() << "no mount namespace to be had";
  EXPECT_EQ(status, 0);
}

// pytorch#11201: too many open files after about a thousand tensors.
TEST_P(FieldCase, AReceiverKeepsThousandsOfTensorsWithFewDescriptors) {
  constexpr int kMany = 3000;
  TensorQueue queue;
  Peer producer([&](Channel& channel) {
    for (int i = 0; i < kMany; ++i) queue.put(Tensor::full({300}, i));
    (void)receive_soon(channel);
  });
  const int status = in_child([&] {
    const rlimit few{.rlim_cur = 256, .rlim_max = 256};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
    std::vector<Tensor> kept;
    while (kept.size() < kMany) kept.push_back(queue.get(in_seconds(kSoon)).value());
    for (int i = 0; i < kMany; ++i)
      if (kept[static_cast<std::size_t>(i)].at<float>(299) != static_cast<float>(i)) return 2;
    return test::open_descriptors() < 100 ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
  producer.channel().send({});
}

// What fails for want of descriptors says so and how to mend it; afterwards all goes on.
TEST_P(FieldCase, WithoutADescriptorLeftEachCallIsAClearError) {
  EXPECT_EQ(in_child([] {
              const rlimit few{.rlim_cur = 40, .rlim_max = 40};
              if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
              auto [left, right] = Channel::pair();
              const Tensor tensor = Tensor::full({10}, 3);
              left.send({.tensors = {tensor}});
              std::vector<Fd> hogs;
              for (int fd = 0; fd >= 0;)
                hogs.emplace_back(fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC));
              const std::function<void()> calls[] = {
                  [] { (void)Tensor::zeros_shared({10'000'000}, DType::f32, GetParam()); },
                  [] { const TensorQueue queue; },
                  [&right = right] { (void)right.receive(in_seconds(kSoon)); }};
              for (const auto& call : calls) {
                try {
                  call();
                  return 2;
                } catch (const Error& error) {
                  const std::string_view remedy = error.remedy();
                  if (error.kind() != ErrorKind::limit_reached) return 3;
                  if (remedy.find("ulimit") == std::string_view::npos) return 4;
                }
              }
              hogs.clear();
              left.send({.tensors = {tensor}});
              return receive_soon(right).tensors.at(0).at<float>(9) == 3 ? 0 : 5;
            }),
            0);
}

// pytorch/vision#1795: the same when a child is started with thousands of tensors.
TEST_P(FieldCase, AChildStartsWithThousandsOfTensors) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3000; ++i) tensors.push_back(Tensor::full({}, 1));
  auto workers = launch(counting_worker, Message{.tensors = tensors}, {.nprocs = 1});
  EXPECT_TRUE(workers.join(in_seconds(kSoon)));
}

// pytorch#60626: mmap fails with memory to spare, since each tensor was a mapping.
TEST_P(FieldCase, MoreTensorsThanTheKernelAllowsMappings) {
  const int maps = test::mappings();
  std::vector<Tensor> tensors;
  for (int i = 0; i < 65'600; ++i) tensors.push_back(Tensor::full_shared({1}, i));
  EXPECT_LE(test::mappings() - maps, 256);
  EXPECT_EQ(tensors[65'599].item<float>(), 65'599);
}

// pytorch#60978: names drawn from a generator whose state a fork copied.
TEST(FieldNames, DrawnByForkedChildrenAreAllDifferent) {
  const auto [reading, writing] = make_socket_pair();
  constexpr int kChildren = 20;
  for (int i = 0; i < kChildren; ++i) {
    EXPECT_EQ(in_child([&writing = writing] {
                const SegmentId id = SegmentId::random();
                return send_packet(writing.get(), std::as_bytes(std::span(&id, 1)), {}, kForever) ==
                               Transfer::done
                           ? 0
                           : 1;
              }),
              0);
  }
  std::vector<SegmentId> ids(kChildren);
  std::vector<Fd> fds;
  std::size_t nbytes = 0;
  for (SegmentId& id : ids)
    EXPECT_EQ(receive_packet(reading.get(), std::as_writable_bytes(std::span(&id, 1)), nbytes, fds,
                             in_seconds(kSoon)),
              Transfer::done);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

// Looks at all names under the prefix; those that go away meanwhile do not count.
void expect_whole_segments(const std::string& prefix) {
  for (const std::string& name : shm_directory::list(prefix)) {
    const Fd file = shm_directory::open(name);
    if (!file) continue;
    SegmentHeader header{};
    struct stat about {};
    ASSERT_EQ(::fstat(file.get(), &about), 0);
    ASSERT_EQ(::pread(file.get(), &header, sizeof header, 0), ssize_t{sizeof header});
    EXPECT_EQ(find_fault(header, static_cast<std::uint64_t>(about.st_size)), "");
  }
}

// interprocess#128: an opener hangs on what a killed creator left half made.
TEST(FieldNames, AreNeverSeenHalfMade) {
  const std::string prefix = concat("shoal-half-", ::getpid(), '-');
  shm_directory::set_name_prefix(prefix);
  for (int round = 0; round < 50; ++round) {
    Peer maker([&](Channel& channel) {
      channel.send({.tag = "begin"});
      for (;;) {
        (void)Tensor::zeros_shared({100}, DType::f32, SharingStrategy::file_system);
        SegmentPool::instance().trim();
      }
    });
    (void)receive_soon(maker.channel());
    for (int looks = 37 * round % 50; looks > 0; --looks) expect_whole_segments(prefix);
    ::kill(maker.pid(), SIGKILL);
    (void)maker.wait();
    expect_whole_segments(prefix);
    reap_orphans();
    EXPECT_EQ(shm_directory::list(prefix), std::vector<std::string>{});
  }
  shm_directory::set_name_prefix("shoal-");
}

// pytorch#30225: a process aborts since its segment's file was deleted.
TEST_P(FieldCase, ADeletedFileDisturbsNobody) {
  EXPECT_EQ(in_child([] {
              shm_directory::set_name_prefix(concat("shoal-deleted-", ::getpid(), '-'));
              Tensor tensor = Tensor::full_shared({1000}, 4);
              for (const auto& name : shm_directory::list(shm_directory::name_prefix()))
                shm_directory::unlink(name);
              Peer peer([](Channel& channel) {
                const Message message = receive_soon(channel);
                channel.send({.tag = message.tensors.at(0).at<float>(999) == 4 ? "read" : "lost"});
              });
              peer.channel().send({.tensors = {tensor}});
              if (receive_soon(peer.channel()).tag != "read") return 1;
              tensor = Tensor();
              SegmentPool::instance().trim();
              return peer.wait();
            }),
            0);
}

// pytorch/pytorch#33885 and others: a child hangs on a lock that another thread held at the fork.
TEST_P(FieldCase, AForkWhileAThreadSharesDoesNotLeaveTheTensorLocked) {
  if (test::kSanitized) GTEST_SKIP() << "SKIP: the sanitizer's heap does not survive such a fork";
  for (int round = 0; round < 30; ++round) {
    const Tensor tensor = Tensor::full({1 << 20}, round);
    std::thread sharing([&tensor] { tensor.share_memory(); });
    Peer child([&](Channel& channel) {
      channel.send({.tensors = {tensor}});
      (void)receive_soon(channel);
    });
    sharing.join();
    const Message message = receive_soon(child.channel());
    EXPECT_EQ(message.tensors.at(0).at<float>((1 << 20) - 1), static_cast<float>(round));
    child.channel().send({});
    EXPECT_EQ(child.wait(), 0);
  }
}

// pytorch#31571: three views of one tensor cannot be given to a spawned child.
TEST_P(FieldCase, ViewsGivenToASpawnedChildAliasThere) {
  const Tensor base = Tensor::zeros({10});
  auto workers =
      launch(aliasing_worker, Message{.tensors = {base, base.slice(0, 1, 10), base.slice(0, 0, 5)}},
             {.nprocs = 1});
  EXPECT_TRUE(workers.join(in_seconds(kSoon)));
  EXPECT_EQ(base.at<float>(1), 50);
}

// pytorch#5311: after a move to shared memory a view of it is left behind.
TEST_P(FieldCase, AViewFollowsItsBaseAndBothArriveAsOne) {
  const Tensor base = Tensor::arange(0, 12).to(DType::f32).reshape({3, 4});
  const Tensor tail = base.slice(0, 1, 3), turned = base.transpose();
  base.share_memory();
  Peer peer([](Channel& channel) {
    const Message message = receive_soon(channel);
    message.tensors.at(1).at<float>(0, 0) = 100;
    const bool one =
        message.tensors[0].at<float>(1, 0) == 100 && message.tensors[2].at<float>(0, 1) == 100;
    channel.send({.tag = one ? "one" : "apart"});
  });
  peer.channel().send({.tensors = {base, tail, turned}});
  EXPECT_EQ(receive_soon(peer.channel()).tag, "one");
  EXPECT_EQ(tail.at<float>(0, 0), 100);
}

// Reading is all that a receiver may need.
TEST_P(FieldCase, AReadOnlyTensorCannotBeWrittenByItsReceiver) {
  const Tensor tensor = Tensor::full({1000}, 6);
  Peer reader([](Channel& channel) {
    const Message message = receive_soon(channel);
    const Tensor& got = message.tensors.at(0);
    bool refused = false;
    try {
      got.fill_(1);
    } catch (const Error&) {
      refused = true;
    }
    const bool kept = got.is_read_only() && got.slice(0, 0, 5).is_read_only();
    channel.send({.tag = refused && kept && got.at<float>(999) == 6 ? "refused" : "written",
                  .tensors = {got}});
    (void)receive_soon(channel);
  });
  reader.channel().send({.tensors = {tensor.read_only()}});
  const Message answer = receive_soon(reader.channel());
  EXPECT_EQ(answer.tag, "refused");
  EXPECT_TRUE(answer.tensors.at(0).is_read_only()) << "sent on it stays so";
  reader.channel().send({});
  EXPECT_EQ(reader.wait(), 0);
  Peer writer([](Channel& channel) {
    const Message message = receive_soon(channel);
    ::signal(SIGSEGV, SIG_DFL);              // a sanitizer's handler would make another end of it
    message.tensors.at(0).at<float>(0) = 1;  // the processor refuses
    channel.send({.tag = "written"});
  });
  writer.channel().send({.tensors = {tensor.read_only(), tensor}});
  EXPECT_EQ(writer.wait(), -SIGSEGV);
  EXPECT_EQ(tensor.at<float>(0), 6);
}

}  // namespace
}  // namespace shoal
