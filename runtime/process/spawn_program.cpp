#include "shoal/runtime/process/spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/pidfd.h"

namespace shoal {
namespace {

std::vector<std::string> make_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> lines;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view text = *line;
    if (!added.contains(std::string(text.substr(0, text.find('='))))) lines.emplace_back(text);
  }
  for (const auto& [name, value] : added) lines.push_back(concat(name, '=', value));
  return lines;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct FileActions {
  FileActions() { ::posix_spawn_file_actions_init(&actions); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions); }
  void add_dup2(int from, int to) {
    const int failed = ::posix_spawn_file_actions_adddup2(&actions, from, to);
    if (failed != 0) throw_errno(failed, "posix_spawn_file_actions_adddup2");
  }
  posix_spawn_file_actions_t actions{};
};

}  // namespace

pid_t spawn_program(std::vector<std::string> words, const std::vector<const Fd*>& kept,
                    const std::map<std::string, std::string>& added,
                    std::initializer_list<std::pair<const Fd*, int>> streams) {
  FileActions files;
  // Onto itself: that clears close-on-exec, in the new process alone.
  for (const Fd* fd : kept) files.add_dup2(fd->get(), fd->get());
  for (const auto& [fd, stream] : streams)
    if (*fd) files.add_dup2(fd->get(), stream);
  std::vector<std::string> lines = make_environment(added);
  const std::vector<char*> argv = pointers_to(words), environment = pointers_to(lines);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, "/proc/self/exe", &files.actions, nullptr, argv.data(),
                                   environment.data());
  if (failed != 0) throw_errno(failed, "posix_spawn", "/proc/self/exe");
  return pid;
}

Fd above_streams(Fd fd) {
  if (fd.get() > STDERR_FILENO) return fd;
  Fd moved{::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
  if (!moved) throw_errno("fcntl(F_DUPFD_CLOEXEC)");
  return moved;
}

Fd watch_child(pid_t pid) {
  try {
    return open_pidfd(pid);
  } catch (const Error&) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    throw;
  }
}

}  // namespace shoal
