#include "shoal/runtime/shm/manager_address.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "support/expect_error.h"
#include "support/peer.h"
#include "support/scratch_directory.h"

// Where shm-manager is found, and that there is one of it.
namespace shoal::manager {
namespace {

using test::kSoon;
using test::Peer;
using test::receive_soon;

Deadline soon() { return in_seconds(kSoon); }

// An environment variable, set or unset until the end of the block. For tests of one thread.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* text = std::getenv(name); text != nullptr) before_ = text;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

std::string chosen_path(const std::string& value) {
  const Variable manager("SHOAL_MANAGER", value);
  return socket_path();
}

std::string fallback() { return concat("/tmp/shoal-", ::geteuid(), "/manager.sock"); }

bool exists(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0;
}

TEST(ManagerAddress, IsWhatTheEnvironmentSays) {
  EXPECT_EQ(chosen_path("/some/where/manager.sock"), "/some/where/manager.sock");
  const std::string longest = "/" + std::string(most_path_bytes() - 1, 'x');
  EXPECT_EQ(chosen_path(longest), longest);
}

TEST(ManagerAddress, IsNoRelativeAndNoOverlongPath) {
  for (const std::string& bad :
       {std::string("manager.sock"), std::string("./x"), std::string("OFF"),
        "/" + std::string(most_path_bytes(), 'x'), "/" + std::string(100'000, 'x')})
    expect_error(
        ErrorKind::invalid_argument, [&] { (void)chosen_path(bad); }, "SHOAL_MANAGER",
        std::to_string(most_path_bytes()));
}

TEST(ManagerAddress, CanBeOff) {
  {
    const Variable manager("SHOAL_MANAGER", "off");
    EXPECT_TRUE(is_off());
  }
  for (const std::optional<std::string>& on :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>("/off"), std::optional<std::string>("Off")}) {
    const Variable manager("SHOAL_MANAGER", on);
    EXPECT_FALSE(is_off());
  }
}

// Where nothing is chosen; on a machine with the system's service that one is found first.
class ManagerAddressByDefault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (exists(kSystemSocket)) GTEST_SKIP() << kSystemSocket << " exists";
  }
  Variable manager_{"SHOAL_MANAGER", std::nullopt};
  ScratchDirectory scratch_;
};

TEST_F(ManagerAddressByDefault, IsInTheUsersRuntimeFolder) {
  const Variable runtime("XDG_RUNTIME_DIR", scratch_.path());
  EXPECT_EQ(socket_path(), scratch_.path() + "/shoal/manager.sock");
  const Variable manager("SHOAL_MANAGER", "");
  EXPECT_EQ(socket_path(), scratch_.path() + "/shoal/manager.sock");
}

TEST_F(ManagerAddressByDefault, IsInTmpWithoutARuntimeFolder) {
  write_file(scratch_.file("file"), "");
  // The last is one that exists, but it leaves no room for the rest of a socket's path.
  const std::string deep = scratch_.file(std::string(most_path_bytes(), 'd'));
  std::filesystem::create_directory(deep);
  const std::vector<std::optional<std::string>> without = {
      std::nullopt, "", "relative", ".", scratch_.file("missing"), scratch_.file("file"), deep};
  for (const auto& value : without) {
    const Variable runtime("XDG_RUNTIME_DIR", value);
    EXPECT_EQ(socket_path(), fallback()) << value.value_or("unset");
  }
}

class ManagerFolder : public ::testing::Test {
 protected:
  void expect_refused() {
    expect_error(
        ErrorKind::unsupported, [&] { prepare_folder(path_); }, folder_, "SHOAL_MANAGER");
  }
  ScratchDirectory scratch_;
  std::string folder_ = scratch_.file("shoal");
  std::string path_ = folder_ + "/manager.sock";
};

TEST_F(ManagerFolder, IsMadeForItsOwnerAlone) {
  prepare_folder(path_);
  struct stat about {};
  ASSERT_EQ(::lstat(folder_.c_str(), &about), 0);
  EXPECT_TRUE(S_ISDIR(about.st_mode));
  EXPECT_EQ(about.st_mode & 07777, 0700U);
  EXPECT_EQ(about.st_uid, ::geteuid());
  prepare_folder(path_);  // and stays as it is
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  prepare_folder(path_);
}

TEST_F(ManagerFolder, IsRefusedIfOthersMayWriteToIt) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  for (const mode_t mode : {0777, 01777, 0770, 0702}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    expect_refused();
  }
}

TEST_F(ManagerFolder, IsRefusedIfItIsSomebodyElses) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  expect_refused();
}

TEST_F(ManagerFolder, IsRefusedIfItIsALinkOrAFile) {
  const std::string elsewhere = scratch_.file("elsewhere");
  ASSERT_EQ(::mkdir(elsewhere.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(elsewhere.c_str(), folder_.c_str()), 0);
  expect_refused();
  ASSERT_EQ(::unlink(folder_.c_str()), 0);
  write_file(folder_, "");
  expect_refused();
}

TEST_F(ManagerFolder, IsNotMadeInAFolderThatIsMissing) {
  expect_error(
      ErrorKind::not_found, [&] { prepare_folder(folder_ + "/deeper/manager.sock"); },
      "SHOAL_MANAGER");
}

class ManagerSocket : public ::testing::Test {
 protected:
  // A file as a manager leaves it that was killed.
  void leave_stale_file() {
    { const Fd dead = listen_at(path_, soon()); }
    ASSERT_TRUE(exists(path_));
  }
  [[nodiscard]] bool somebody_listens() const {
    return static_cast<bool>(connect_to(path_, soon()));
  }

  ScratchDirectory scratch_;
  std::string path_ = scratch_.file("manager.sock");
};

TEST_F(ManagerSocket, IsForItsOwnerAlone) {
  const Fd listener = listen_at(path_, soon());
  ASSERT_TRUE(listener);
  struct stat about {};
  ASSERT_EQ(::lstat(path_.c_str(), &about), 0);
  EXPECT_TRUE(S_ISSOCK(about.st_mode));
  EXPECT_EQ(about.st_mode & 07777, 0600U);
}

TEST_F(ManagerSocket, ConnectsToWhoeverListens) {
  const Fd listener = listen_at(path_, soon());
  const Fd client = connect_to(path_, soon());
  ASSERT_TRUE(client);
  ASSERT_TRUE(wait_ready(listener.get(), POLLIN, soon()));
  const Fd accepted{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  ASSERT_TRUE(accepted);
  ASSERT_EQ(::send(client.get(), "x", 1, 0), 1);
  char letter = 0;
  ASSERT_TRUE(wait_ready(accepted.get(), POLLIN, soon()));
  EXPECT_EQ(::recv(accepted.get(), &letter, 1, 0), 1);
  EXPECT_EQ(letter, 'x');
}

TEST_F(ManagerSocket, ConnectsToNobodyIfNobodyListens) {
  EXPECT_FALSE(connect_to(path_, soon()));
  EXPECT_FALSE(connect_to(scratch_.file("missing") + "/manager.sock", soon()));
  leave_stale_file();
  EXPECT_FALSE(connect_to(path_, soon()));
}

TEST_F(ManagerSocket, SaysSoIfTheManagerDoesNotAccept) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path_, address.sun_path);
  const Fd listener{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const Fd first = connect_to(path_, soon());
  ASSERT_TRUE(first);
  expect_error(
      ErrorKind::timed_out, [&] { (void)connect_to(path_, in_ms(20)); }, path_);
  expect_error(
      ErrorKind::timed_out, [&] { (void)connect_to(path_, in_ms(0)); }, path_);
}

TEST_F(ManagerSocket, RefusesPathsThatNoSocketCanHave) {
  const std::string path = scratch_.file(std::string(most_path_bytes(), 'x'));
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)connect_to(path, soon()); }, path);
  expect_error(
      ErrorKind::invalid_argument, [&] { (void)listen_at(path, soon()); }, path);
}

TEST_F(ManagerSocket, TakesAPathOfTheGreatestLength) {
  const std::string path =
      scratch_.file(std::string(most_path_bytes() - scratch_.path().size() - 1, 'x'));
  ASSERT_EQ(path.size(), most_path_bytes());
  const Fd listener = listen_at(path, soon());
  EXPECT_TRUE(listener);
  EXPECT_TRUE(connect_to(path, soon()));
}

TEST_F(ManagerSocket, OfADeadManagerIsReplaced) {
  leave_stale_file();
  const Fd listener = listen_at(path_, soon());
  ASSERT_TRUE(listener);
  EXPECT_TRUE(somebody_listens());
  EXPECT_FALSE(listen_at(path_, soon())) << "there is one already";
}

TEST_F(ManagerSocket, DoesNotTakeThePlaceOfAnythingElse) {
  write_file(path_, "mine");
  expect_error(
      ErrorKind::unsupported, [&] { (void)listen_at(path_, soon()); }, path_);
  EXPECT_EQ(read_file(path_), "mine");
}

TEST_F(ManagerSocket, IsHadByOneOfManyThreads) {
  constexpr int kThreads = 20;
  for (const bool stale : {false, true}) {
    if (stale) leave_stale_file();
    std::vector<Fd> listeners(kThreads);
    std::latch start(kThreads);
    {
      std::vector<std::jthread> threads;
      for (Fd& listener : listeners)
        threads.emplace_back([&] {
          start.arrive_and_wait();
          listener = listen_at(path_, soon());
        });
    }
    EXPECT_EQ(std::ranges::count_if(listeners, [](const Fd& fd) { return bool{fd}; }), 1) << stale;
    EXPECT_TRUE(somebody_listens());
  }
}

TEST_F(ManagerSocket, IsHadByOneOfManyProcesses) {
  constexpr int kProcesses = 20;
  leave_stale_file();
  std::vector<Peer> peers;
  peers.reserve(kProcesses);
  for (int i = 0; i < kProcesses; ++i)
    peers.emplace_back([&](Channel& parent) {
      (void)receive_soon(parent);
      const Fd listener = listen_at(path_, soon());
      parent.send({.tag = listener ? "got it" : "late"}, soon());
      (void)receive_soon(parent);  // nobody lets go of it before all have tried
    });
  for (Peer& peer : peers) peer.channel().send({.tag = "try"}, soon());
  int got = 0;
  for (Peer& peer : peers) got += receive_soon(peer.channel()).tag == "got it";
  EXPECT_EQ(got, 1);
  EXPECT_TRUE(somebody_listens());
  for (Peer& peer : peers) peer.channel().send({.tag = "end"}, soon());
  for (Peer& peer : peers) EXPECT_EQ(peer.wait(), 0);
  EXPECT_FALSE(somebody_listens());
}

TEST_F(ManagerSocket, IsGivenUpOnlyWhileNobodyWaits) {
  Fd listener = listen_at(path_, soon());
  Fd client = connect_to(path_, soon());
  ASSERT_TRUE(client);
  EXPECT_FALSE(stop_listening(listener, path_, file_at(path_), soon()));
  EXPECT_TRUE(exists(path_));
  const Fd accepted{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  ASSERT_TRUE(accepted) << "nothing has changed";
  EXPECT_TRUE(stop_listening(listener, path_, file_at(path_), soon()));
  EXPECT_FALSE(listener);
  EXPECT_FALSE(exists(path_));
  EXPECT_FALSE(connect_to(path_, soon()));
}

TEST_F(ManagerSocket, AManagerThatStopsLeavesASocketThatTookItsPlace) {
  Fd listener = listen_at(path_, soon());
  const FileIdentity file = file_at(path_);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  const Fd another = listen_at(path_, soon());
  ASSERT_TRUE(static_cast<bool>(another));
  ASSERT_TRUE(stop_listening(listener, path_, file, soon()));
  EXPECT_TRUE(static_cast<bool>(connect_to(path_, soon())));
  remove_socket(path_, file_at(path_));
  EXPECT_FALSE(static_cast<bool>(connect_to(path_, soon())));
}

TEST_F(ManagerSocket, ThatIsGivenUpCanBeHadAgain) {
  Fd listener = listen_at(path_, soon());
  ASSERT_TRUE(stop_listening(listener, path_, file_at(path_), soon()));
  listener = listen_at(path_, soon());
  EXPECT_TRUE(listener);
  EXPECT_TRUE(somebody_listens());
}

}  // namespace
}  // namespace shoal::manager
