#pragma once

#include <dirent.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/pidfd.h"
#include "support/peer.h"

namespace shoal::test {

// Empty where there is no such file, or not any more.
inline std::string read_all(const std::string& path) {
  std::ostringstream text;
  if (std::ifstream file(path, std::ios::binary); file) text << file.rdbuf();
  return text.str();
}

// Children of a process at this moment, of whichever of its threads.
inline std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = concat("/proc/", pid, "/task");
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(tasks.c_str()), &::closedir);
  while (const dirent* task = directory ? ::readdir(directory.get()) : nullptr) {
    std::ifstream list(concat(tasks, '/', static_cast<const char*>(task->d_name), "/children"));
    children.insert(children.end(), std::istream_iterator<pid_t>(list), {});
  }
  return children;
}

// And theirs, and so on.
inline std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> all = children_of(pid);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto more = children_of(all[i]);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Children that have ended and that nobody has collected.
inline int count_zombies() {
  int count = 0;
  for (const pid_t child : children_of(::getpid())) {
    const std::string stat = read_all(concat("/proc/", child, "/stat"));
    const auto name_end = stat.rfind(')');
    count += name_end != std::string::npos && stat.compare(name_end, 3, ") Z") == 0;
  }
  return count;
}

// Whether any process of the group runs; those that have ended, collected or not, do not.
inline bool group_lives(pid_t group) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), &::closedir);
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string stat =
        read_all(concat("/proc/", static_cast<const char*>(entry->d_name), "/stat"));
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream fields(stat.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0, its_group = 0;
    if (fields >> state >> parent >> its_group && its_group == group && state != 'Z') return true;
  }
  return false;
}

inline int count_descriptors() {
  int count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), &::closedir);
  while (const dirent* entry = ::readdir(directory.get())) count += entry->d_name[0] != '.';
  return count;
}

// Of this process; -1 if none runs.
inline pid_t fork_server_pid() {
  for (const pid_t child : children_of(::getpid()))
    if (read_all(concat("/proc/", child, "/cmdline")).find("--shoal-fork-server") !=
        std::string::npos)
      return child;
  return -1;
}

// Watches processes that are somebody else's children.
class Watched {
 public:
  explicit Watched(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) {
      try {
        pidfds_.push_back(open_pidfd(pid));
      } catch (const Error&) {
        // It has ended already.
      }
    }
  }
  [[nodiscard]] std::size_t size() const { return pidfds_.size(); }
  [[nodiscard]] bool all_end(double seconds) const {
    const Deadline deadline = in_seconds(seconds);
    for (const Fd& pidfd : pidfds_)
      if (!wait_ready(pidfd.get(), POLLIN, deadline)) return false;
    return true;
  }
  [[nodiscard]] bool none_has_ended() const {
    for (const Fd& pidfd : pidfds_)
      if (wait_ready(pidfd.get(), POLLIN, in_ms(0))) return false;
    return true;
  }

 private:
  std::vector<Fd> pidfds_;
};

}  // namespace shoal::test
