#include "shoal/tools/shm_manager/supervisor.h"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "shoal/runtime/base/error.h"

namespace shoal::tools {
namespace {

constexpr std::chrono::seconds kStatusInterval{5};

std::chrono::microseconds heartbeat_interval() {
  std::chrono::microseconds interval = kStatusInterval;
  std::uint64_t watchdog_us = 0;
  // Half of what it waits, as sd_watchdog_enabled(3) advises.
  if (::sd_watchdog_enabled(0, &watchdog_us) > 0 && watchdog_us > 0)
    interval = std::min(interval, std::chrono::microseconds(watchdog_us / 2));
  return interval;
}

}  // namespace

Fd socket_from_supervisor() {
  const int count = ::sd_listen_fds(1);
  if (count <= 0) return Fd{};
  check(count == 1 && ::sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, nullptr, 0) > 0,
        ErrorKind::invalid_argument, "socket activation",
        "wants one listening socket of type "
        "SOCK_SEQPACKET, and got ",
        count,
        " descriptors. In the .socket unit: "
        "ListenSequentialPacket=");
  return Fd{SD_LISTEN_FDS_START};
}

void notify_ready() { ::sd_notify(0, "READY=1"); }

void notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto usec = std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  ::sd_notify(0, concat("RELOADING=1\nMONOTONIC_USEC=", usec).c_str());
}

void notify_stopping() { ::sd_notify(0, "STOPPING=1"); }

Heartbeat::Heartbeat(boost::asio::io_context& loop, std::function<std::string()> status)
    : status_(std::move(status)), timer_(loop), interval_(heartbeat_interval()) {
  beat();
}

void Heartbeat::beat() {
  ::sd_notify(0, concat("WATCHDOG=1\nSTATUS=", status_()).c_str());
  timer_.expires_after(interval_);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) beat();
  });
}

}  // namespace shoal::tools
