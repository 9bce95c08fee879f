#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/shm/manager_address.h"
#include "shoal/runtime/shm/manager_protocol.h"
#include "support/scratch_directory.h"
#include "tools/operator.h"

namespace shoal::test {

// A process that answers as a test wants a manager to, and that programs started meanwhile find.
class FakeManager {
 public:
  // The bytes to answer; none for no answer at all.
  using Answer = std::function<std::vector<std::byte>(const manager::Frame&)>;

  explicit FakeManager(const Answer& answer) : environment_("SHOAL_MANAGER", path()) {
    Fd listener = manager::listen_at(path(), in_seconds(kOperatorSoon));
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (;;) serve(Fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)}, answer);
  }
  ~FakeManager() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  FakeManager(const FakeManager&) = delete;
  FakeManager& operator=(const FakeManager&) = delete;

  [[nodiscard]] std::string path() const { return scratch_.file("manager.sock"); }
  [[nodiscard]] const std::string& folder() const { return scratch_.path(); }

  // One that has these clients, and pid 77.
  static Answer with_clients(std::vector<manager::Client> clients) {
    return [clients = std::move(clients)](const manager::Frame& request) mutable {
      manager::Frame answer{.verb = manager::Verb::welcome, .pid = 77};
      if (request.verb == manager::Verb::hello) {
        // As a real one does, it counts whoever asks.
        clients.push_back({.pid = request.pid});
      } else {
        answer = {.verb = manager::Verb::clients,
                  .first = request.first,
                  .total = static_cast<std::uint32_t>(clients.size())};
        for (std::size_t i = request.first;
             i < clients.size() && answer.clients.size() < manager::kMostClients; ++i)
          answer.clients.push_back(clients[i]);
      }
      return manager::encode(answer);
    };
  }

 private:
  static void serve(const Fd& client, Answer answer) {
    try {
      for (;;) {
        std::array<std::byte, manager::kMaxFrame> buffer;
        std::size_t nbytes = 0;
        std::vector<Fd> none;
        if (receive_packet(client.get(), buffer, nbytes, none, kForever) != Transfer::done) return;
        const auto bytes = answer(manager::decode(std::span(buffer).first(nbytes)));
        if (!bytes.empty()) (void)send_packet(client.get(), bytes, {}, kForever);
      }
    } catch (const std::exception&) {
      // The client has gone.
    }
  }

  ScratchDirectory scratch_;
  Environment environment_;
  pid_t pid_ = -1;
};

}  // namespace shoal::test
