#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/pidfd.h"
#include "support/scratch_directory.h"

namespace shoal {

// A program under test: started, watched with a deadline, its output kept. Ended with this object.
class Program {
 public:
  explicit Program(std::vector<std::string> command) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    constexpr int kFlags = O_CREAT | O_TRUNC | O_WRONLY;
    ::posix_spawn_file_actions_addopen(&actions, 1, out_path().c_str(), kFlags, 0600);
    ::posix_spawn_file_actions_addopen(&actions, 2, err_path().c_str(), kFlags, 0600);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int failed = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw_errno(failed, "posix_spawn", command[0]);
    ended_ = open_pidfd(pid_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (!collected_) {
      ::kill(pid_, SIGKILL);
      (void)wait(kForever);
    }
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

  // The exit code, or minus the number of the signal that ended it; -1000 at the deadline.
  int wait(Deadline deadline) {
    if (collected_) return code_;
    if (!wait_ready(ended_.get(), POLLIN, deadline)) return -1000;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    collected_ = true;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return code_;
  }

  [[nodiscard]] std::string out() const { return read(out_path()); }
  [[nodiscard]] std::string err() const { return read(err_path()); }

 private:
  [[nodiscard]] std::string out_path() const { return scratch_.file("out"); }
  [[nodiscard]] std::string err_path() const { return scratch_.file("err"); }
  [[nodiscard]] static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ScratchDirectory scratch_;
  pid_t pid_ = -1;
  Fd ended_;
  bool collected_ = false;
  int code_ = 0;
};

}  // namespace shoal
