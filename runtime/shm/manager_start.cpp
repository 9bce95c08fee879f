#include "shoal/runtime/shm/manager_start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/manager_address.h"

namespace shoal::manager {
namespace {

constexpr const char* kProgram = "shm-manager";
constexpr const char* kRemedy =
    "Install shm-manager or set SHOAL_MANAGER_PROGRAM to it; or set SHOAL_MANAGER=off and go "
    "without: what killed processes leave under /dev/shm then stays until the next one starts";

// The manager's end of the socket, where it looks for it; above the standard streams.
constexpr int kListener = 3;

// So much of what it wrote, at most, stands in an error.
constexpr std::size_t kMostErrors = 2048;

std::string find_program() {
  if (const char* chosen = std::getenv("SHOAL_MANAGER_PROGRAM"); chosen != nullptr) return chosen;
  std::array<char, PATH_MAX> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length > 0) {
    std::string beside(self.data(), static_cast<std::size_t>(length));
    beside.replace(beside.rfind('/') + 1, std::string::npos, kProgram);
    if (::access(beside.c_str(), X_OK) == 0) return beside;
  }
  if (::access(SHOAL_INSTALLED_MANAGER, X_OK) == 0) return SHOAL_INSTALLED_MANAGER;
  return kProgram;  // looked for in $PATH
}

// Out of the way of the descriptors that the new program gets.
Fd above_streams(const Fd& fd) {
  Fd copy{::fcntl(fd.get(), F_DUPFD_CLOEXEC, kListener + 1)};
  if (!copy) throw_errno("fcntl(F_DUPFD_CLOEXEC)", kProgram);
  return copy;
}

class SpawnSettings {
 public:
  SpawnSettings(const Fd& listener, const Fd& errors)
      : listener_(above_streams(listener)), errors_(above_streams(errors)) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, errors_.get(), 2);
    ::posix_spawn_file_actions_adddup2(&actions, listener_.get(), kListener);
    // It may live long after us: no socket, pipe or lock of ours may live with it.
    ::posix_spawn_file_actions_addclosefrom_np(&actions, kListener + 1);
    // Nothing of the caller's signals: it may block or ignore those that end a manager.
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

 private:
  Fd listener_, errors_;
};

struct Started {
  bool ready = false;
  std::string errors;  // what it wrote
};

// Runs it until it is ready, when the process started here ends and another goes on.
Started run(const std::string& program, const std::string& socket_path, const Fd& listener,
            Deadline deadline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe2", kProgram);
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  std::vector<std::string> words = {program,     "serve",       "--private",      "--socket",
                                    socket_path, "--listen-fd", concat(kListener)};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  {
    const SpawnSettings settings(listener, writing);
    const int failed = ::posix_spawnp(&pid, program.c_str(), &settings.actions,
                                      &settings.attributes, argv.data(), environ);
    if (failed != 0) throw_errno(failed, "posix_spawn", program, kRemedy);
  }
  writing.reset();
  Started started;
  std::array<char, 1024> part{};
  bool ended = false;
  // Nobody has the other end once it has ended.
  while (!ended && wait_ready(reading.get(), POLLIN, deadline)) {
    const ssize_t got = ::read(reading.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    ended = got <= 0;
    if (got > 0) started.errors.append(part.data(), static_cast<std::size_t>(got));
    // The end of it says whether it is ready, or why not.
    if (started.errors.size() > kMostErrors)
      started.errors.erase(0, started.errors.size() - kMostErrors);
  }
  if (!ended) ::kill(pid, SIGKILL);
  // Fails if the program ignores SIGCHLD or waits for all its children elsewhere: so what it says
  // counts, not how it ended.
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!ended) started.errors = concat("it was not ready in time. ", started.errors);
  started.ready = ended && started.errors.ends_with(kReady);
  while (!started.errors.empty() && started.errors.back() == '\n') started.errors.pop_back();
  return started;
}

}  // namespace

void start_private(const std::string& socket_path, Deadline deadline) {
  prepare_folder(socket_path);
  Fd listener = listen_at(socket_path, deadline);
  if (!listener) return;
  const std::string program = find_program();
  Started started;
  try {
    started = run(program, socket_path, listener, deadline);
  } catch (...) {
    // Whoever connected meanwhile hears that nobody is there.
    ::unlink(socket_path.c_str());
    throw;
  }
  if (started.ready) return;
  ::unlink(socket_path.c_str());
  throw Error({.kind = ErrorKind::system,
               .call = "start shm-manager",
               .subject = program,
               .reason = started.errors.empty() ? "it ended at once" : started.errors,
               .remedy = kRemedy});
}

}  // namespace shoal::manager
