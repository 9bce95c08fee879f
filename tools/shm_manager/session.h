#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/manager_protocol.h"

namespace shoal::tools {

// One client's connection. It never makes others wait: it takes one message a turn and no more than
// its rate, and reads nothing while the client does not read what it was answered. Whatever the
// client sends, the worst that happens is that this connection ends.
class Session : public std::enable_shared_from_this<Session> {
 public:
  using Id = std::uint64_t;
  // Answers a request. Called in the loop's thread.
  using Answer = std::function<manager::Frame(Session&, const manager::Frame&)>;
  using Ended = std::function<void(Session&)>;

  // `rate`: names a second; a message without any counts as one.
  Session(boost::asio::io_context& loop, Fd socket, Id id, std::size_t rate, Answer answer,
          Ended ended);

  void start() { wait_for_request(); }
  // Instead of start: what the client asks first is refused, then it is closed; it has a second to
  // ask. (Closed with a question unread, the connection would be reset and the reason lost.)
  void turn_away(std::string why);
  // Answers what has been asked already, and ends it.
  void finish() noexcept;
  // Ends it; `ended` is called, once, and may not throw.
  void close() noexcept;
  void set_rate(std::size_t rate) { rate_ = static_cast<double>(rate); }

  [[nodiscard]] Id id() const { return id_; }
  // As the kernel says.
  [[nodiscard]] std::uint32_t uid() const { return uid_; }
  [[nodiscard]] std::uint32_t pid() const { return pid_; }
  // As the client says: it may be a child of the process that connected, or live in another
  // namespace. For people only.
  void set_pid(std::uint32_t pid) { pid_ = pid; }
  [[nodiscard]] bool greeted() const { return greeted_; }
  void set_greeted() { greeted_ = true; }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t connected_s() const;

 private:
  using Clock = std::chrono::steady_clock;
  void wait_for_request();
  void serve_a_turn();
  // A message, if there is one, and its answer. False when the client has ended.
  [[nodiscard]] bool take_one();
  // False if the client's buffer is full: then it is sent before anything else is read.
  [[nodiscard]] bool send(const std::vector<std::byte>& bytes);
  [[nodiscard]] bool has_allowance();
  // The client hears why, if it still listens.
  void refuse(const std::string& why) noexcept;

  Answer answer_;
  Ended ended_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  Id id_;
  std::uint32_t uid_ = 0, pid_ = 0;
  bool greeted_ = false, closed_ = false;
  std::string turned_away_;  // why; empty if it is not
  std::uint64_t messages_ = 0;
  Clock::time_point connected_;
  std::vector<std::byte> unsent_;
  // A token bucket, filled at the rate and holding what a second brings.
  double rate_, allowance_;
  Clock::time_point filled_;
};

}  // namespace shoal::tools
