#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "support/program.h"
#include "support/shm_names.h"

// What tests of shm-manager share: names of the test's own in /dev/shm, whatever others have there.
namespace shoal::test {

inline constexpr double kOperatorSoon = 60;

class Operator : public testing::Test {
 protected:
  struct Ran {
    int code = 0;
    std::string out{}, err{};
  };

  Operator() { shm_directory::set_name_prefix(prefix_); }
  ~Operator() override {
    for (const std::string& name : planted_) ::remove(path_of(name).c_str());
    reap_orphans();
    EXPECT_EQ(shm_directory::list(prefix_), std::vector<std::string>());
  }

  // shm-manager with these arguments and the prefix.
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), SHM_MANAGER);
    arguments.insert(arguments.end(), {"--prefix", prefix_});
    return arguments;
  }
  [[nodiscard]] Ran run(std::vector<std::string> arguments) const {
    Program program(command(std::move(arguments)));
    const int code = program.wait(in_seconds(kOperatorSoon));
    return {code, program.out(), program.err()};
  }
  [[nodiscard]] nlohmann::json run_json(std::vector<std::string> arguments, int code = 0) const {
    arguments.emplace_back("--json");
    const Ran ran = run(std::move(arguments));
    EXPECT_EQ(ran.code, code) << ran.err << ran.out;
    EXPECT_EQ(std::ranges::count(ran.out, '\n'), 1);
    return nlohmann::json::parse(ran.out);
  }
  // Of the segments in an answer the one of this name.
  static nlohmann::json segment_of(const nlohmann::json& answer, const std::string& name) {
    for (const auto& segment : answer.at("segments"))
      if (segment.at("name") == name) return segment;
    ADD_FAILURE() << name << " is not in " << answer;
    return {};
  }

  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] static std::string path_of(const std::string& name) { return "/dev/shm/" + name; }

  // The name of a segment whose only holder, `nbytes` of memory in it, has been killed.
  static std::string make_orphan(std::size_t nbytes = 100, pid_t* creator = nullptr) {
    const auto [ours, theirs] = make_socket_pair();
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("SHOAL_MANAGER", "off", 1);
      try {
        const Segment segment(nbytes, 1, SharingStrategy::file_system);
        (void)send_packet(theirs.get(), std::as_bytes(std::span(segment.name())), {}, kForever);
        ::raise(SIGKILL);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "make_orphan: %s\n", error.what());
      }
      ::_exit(9);
    }
    std::string name(256, '\0');
    std::size_t length = 0;
    std::vector<Fd> none;
    EXPECT_EQ(receive_packet(ours.get(), std::as_writable_bytes(std::span(name)), length, none,
                             in_seconds(kOperatorSoon)),
              Transfer::done);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    name.resize(length);
    if (creator != nullptr) *creator = child;
    return name;
  }

  // A file named like a segment, but for `after` at the end; gone after the test.
  std::string plant(const std::string& after, std::string_view bytes = {}) {
    std::string name = reserve(after);
    const Fd file{::open(path_of(name).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)};
    EXPECT_TRUE(file);
    EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return name;
  }
  std::string plant_link(const std::string& after, const std::string& target) {
    std::string name = reserve(after);
    EXPECT_EQ(::symlink(target.c_str(), path_of(name).c_str()), 0);
    return name;
  }
  std::string plant_fifo(const std::string& after) {
    std::string name = reserve(after);
    EXPECT_EQ(::mkfifo(path_of(name).c_str(), 0600), 0);
    return name;
  }
  // To be removed after the test in any case.
  std::string reserve(const std::string& after) {
    return planted_.emplace_back(concat(prefix_, "segment-", after));
  }
  void adopt(const std::string& name) { planted_.push_back(name); }

 private:
  [[nodiscard]] static std::string unique_prefix() {
    static std::atomic<int> count{0};
    return concat("shoal-test-", ::getpid(), '-', count++, '-');
  }

  std::string prefix_ = unique_prefix();
  std::vector<std::string> planted_;
};

// Sets an environment variable for the programs that are started while it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// A command with its standard output on `out`, which it inherits. It replaces the shell, so that
// signals reach it.
inline std::vector<std::string> with_output(const Fd& out,
                                            const std::vector<std::string>& command) {
  ::fcntl(out.get(), F_SETFD, 0);
  std::vector<std::string> words{
      "bash", "-c", concat("exec \"$@\" >&", out.get(), ' ', out.get(), ">&-"), "bash"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace shoal::test
