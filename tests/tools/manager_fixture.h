#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/pidfd.h"
#include "shoal/runtime/shm/manager_connection.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "support/peer.h"
#include "support/program.h"
#include "support/scratch_directory.h"
#include "support/shm_names.h"

namespace shoal::test {

// A test with a manager of its own: its socket in a scratch folder, its names with a prefix that no
// other test has. Clients are children, so that each is a process whose connection starts afresh.
class WithManager : public testing::Test {
 protected:
  WithManager() {
    shm_directory::set_name_prefix(concat("shoal-test-", ::getpid(), "-"));
    ::setenv("SHOAL_MANAGER", socket().c_str(), 1);
    write_file(program(), concat("#!/bin/sh\nexec ", SHM_MANAGER, " \"$@\" --sweep ", kNever,
                                 " --prefix ", shm_directory::name_prefix(), "\n"));
    ::chmod(program().c_str(), 0700);
    ::setenv("SHOAL_MANAGER_PROGRAM", program().c_str(), 1);
  }
  ~WithManager() override {
    end_manager(SIGTERM);
    reap_orphans();
    EXPECT_EQ(shm_directory::list(shm_directory::name_prefix()).size(), 0U);
    ::setenv("SHOAL_MANAGER", "off", 1);
    ::unsetenv("SHOAL_MANAGER_PROGRAM");
  }

  [[nodiscard]] std::string socket() const { return folder_.file("m.sock"); }

  // What the library starts: a manager that keeps to this test's names.
  [[nodiscard]] std::string program() const { return programs_.file("shm-manager"); }

  // One that runs in the foreground; ready for clients. It sweeps when it starts and never again,
  // so that nothing is found late that ought to be found at once.
  std::unique_ptr<Program> serve(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> command = {program(), "serve"};
    command.insert(command.end(), options.begin(), options.end());
    auto program = std::make_unique<Program>(command);
    EXPECT_TRUE(soon([&] { return manager_pid() == static_cast<std::uint32_t>(program->pid()); }))
        << program->err();
    return program;
  }

  // Of the one that listens, if any does.
  [[nodiscard]] std::optional<std::uint32_t> manager_pid() const {
    try {
      manager::Connection connection(socket(), in_seconds(kSoon));
      (void)connection.ask({.verb = manager::Verb::report}, in_seconds(kSoon));
      return connection.manager_pid();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  [[nodiscard]] std::vector<manager::Client> clients() const {
    manager::Connection connection(socket(), in_seconds(kSoon));
    return connection.ask({.verb = manager::Verb::report}, in_seconds(kSoon)).clients;
  }

  // Waits until it has ended.
  void end_manager(int signal) const {
    const auto pid = manager_pid();
    if (!pid) return;
    const Fd ended = open_pidfd(static_cast<pid_t>(*pid));
    signal_process(ended, signal);
    EXPECT_TRUE(wait_ready(ended.get(), POLLIN, in_seconds(kSoon)));
  }

  static constexpr const char* kNever = "86400";
  ScratchDirectory folder_, programs_;
};

inline constexpr auto kNamed = SharingStrategy::file_system;

// A child that holds so many named segments until it is killed or told to end, and their names.
struct Holder {
  Peer peer;
  std::vector<std::string> names;
};

inline Holder start_holder(int segments = 1) {
  Holder holder{Peer([=](Channel& channel) {
                  std::vector<std::unique_ptr<Segment>> held;
                  Message names;
                  for (int i = 0; i < segments; ++i) {
                    held.push_back(std::make_unique<Segment>(100, 1, kNamed));
                    names.tag += held.back()->name() + "\n";
                  }
                  channel.send(names);
                  (void)receive_soon(channel);
                }),
                {}};
  std::istringstream lines(receive_soon(holder.peer.channel()).tag);
  for (std::string line; std::getline(lines, line);) holder.names.push_back(line);
  return holder;
}

inline bool all_exist(const std::vector<std::string>& names) {
  return std::ranges::all_of(names, shm_name_exists);
}
inline bool all_go(const std::vector<std::string>& names) {
  return soon([&] { return std::ranges::none_of(names, shm_name_exists); });
}

}  // namespace shoal::test
