#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "shoal/runtime/base/fd.h"

namespace shoal::tools {

// The conversation with systemd, if it started us: a socket that it listens on for us, and news of
// how we are. Without it the calls do nothing.

// The socket that was passed; none if there is no such. Throws Error for one of another kind.
[[nodiscard]] Fd socket_from_supervisor();

void notify_ready();
void notify_reloading();
void notify_stopping();

// Tells `status()` every few seconds, and as often as the watchdog wants to hear of us.
class Heartbeat {
 public:
  Heartbeat(boost::asio::io_context& loop, std::function<std::string()> status);

 private:
  void beat();

  std::function<std::string()> status_;
  boost::asio::steady_timer timer_;
  std::chrono::microseconds interval_;
};

}  // namespace shoal::tools
