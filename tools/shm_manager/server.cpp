#include "shoal/tools/shm_manager/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shoal/runtime/base/error.h"

namespace shoal::tools {
namespace {

using manager::Frame;
using manager::Verb;

constexpr int kClientsATurn = 64;
constexpr int kNamesATurn = 256;
constexpr std::size_t kMostFresh = 2048;
constexpr std::chrono::milliseconds kWalkPause{5};
constexpr int kMostWalkWaits = 20;
constexpr std::size_t kMostLines = 8;
constexpr std::size_t kMostTurnedAway = 256;
constexpr std::size_t kMostNamesInAll = 2'000'000;  // some 300 MiB
constexpr unsigned kSweepsToAll = 6;
constexpr std::chrono::milliseconds kAcceptPause{100};

std::chrono::nanoseconds seconds(double s) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(s));
}

Frame refused(std::string why) { return {.verb = Verb::refused, .reason = std::move(why)}; }

// Empty where there is no such file.
std::optional<uid_t> owner_of(const std::string& name) {
  struct stat about {};
  const std::string path = concat(shm_directory::kPath, '/', name);
  return ::lstat(path.c_str(), &about) == 0 ? std::optional(about.st_uid) : std::nullopt;
}

bool exists(const std::string& name) { return owner_of(name).has_value(); }

// Whether a client of this user may name it: its own, or one that is still to be made. Where it is
// our own user, that is the only one whose segments we could remove.
bool may_name(std::uint32_t uid, const std::string& name) {
  static const uid_t self = ::geteuid();
  if (uid == self || uid == 0) return true;
  const auto owner = owner_of(name);
  return !owner || *owner == uid;
}

}  // namespace

Server::Server(boost::asio::io_context& loop, Fd listener, const ServeOptions& options)
    : loop_(loop),
      options_(options),
      listener_(loop, listener.get()),
      accept_pause_(loop),
      sweep_timer_(loop),
      walk_pause_(loop),
      idle_timer_(loop),
      watch_list_(loop, [this](const std::string& name) { return holdings_.is_held(name); }) {
  (void)listener.release();
  listener_.native_non_blocking(true);
  // No client has a reason to send descriptors, and to close them may take as long as their sender
  // likes. Connections inherit it. Linux 6.16; before, Session copes.
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS, which Debian 12's headers lack
  const int off = 0;
  (void)::setsockopt(listener_.native_handle(), SOL_SOCKET, kPassRights, &off, sizeof off);
  watch_list_.on_removed = [this](const std::vector<std::string>& names) {
    removed_ += names.size();
    if (names.size() <= kMostLines) {
      for (const std::string& name : names)
        spdlog::info("removed {}, which nobody holds any more", name);
    } else {
      spdlog::info("removed {} segments that nobody holds any more, {} among them", names.size(),
                   names.front());
    }
  };
  watch_list_.on_kept = [](const std::string& name) {
    spdlog::warn("{} stays: it cannot be judged or removed; shm-manager doctor says more", name);
  };
}

void Server::start() {
  wait_for_client();
  sweep();
  if (options_.idle_exit_s > 0) look_for_idleness();
}

void Server::set_limits(const Limits& limits) {
  options_.limits = limits;
  for (const auto& [id, session] : sessions_) session->set_rate(limits.max_rate);
}

void Server::wait_for_client() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& failed) {
                         if (!failed) accept_clients();
                       });
}

void Server::accept_clients() {
  for (int i = 0; i < kClientsATurn; ++i) {
    Fd socket{::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) {
      admit(std::move(socket));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Out of descriptors or memory: those who are here may go meanwhile.
      spdlog::warn("no client can be accepted for now: {}", std::strerror(errno));
      return pause_accepting();
    }
  }
  wait_for_client();
}

void Server::pause_accepting() {
  accept_pause_.expires_after(kAcceptPause);
  accept_pause_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) accept_clients();
  });
}

void Server::admit(Fd socket) {
  const std::size_t most = options_.limits.max_clients;
  try {
    const auto session = std::make_shared<Session>(
        loop_, std::move(socket), next_id_++, options_.limits.max_rate,
        [this](Session& from, const Frame& request) { return answer(from, request); },
        [this](Session& ended) { end(ended); });
    // Those that are turned away stay for a moment; but not any number of them.
    if (sessions_.size() >= most + kMostTurnedAway) return;
    const std::size_t of_user = ++users_[session->uid()].clients;
    const std::size_t most_of_user = share_of(session->uid(), most);
    sessions_.emplace(session->id(), session);
    if (sessions_.size() > most) {
      session->turn_away(concat("it has ", most, " clients, as many as --max-clients"));
    } else if (of_user > most_of_user) {
      session->turn_away(concat("user ", session->uid(), " has ", most_of_user,
                                " clients, half of --max-clients"));
    } else {
      session->start();
    }
  } catch (const std::exception& error) {
    spdlog::warn("a client could not be accepted: {}", error.what());
  }
}

std::size_t Server::share_of(std::uint32_t uid, std::size_t all) {
  // Who serves one user alone need not save anything for others.
  static const uid_t self = ::geteuid();
  return uid == self ? all : std::max<std::size_t>(1, all / 2);
}

void Server::end(Session& session) noexcept {
  try {
    // Less than it holds if memory ran out while it was counted.
    if (const auto user = users_.find(session.uid()); user != users_.end()) {
      user->second.names -= std::min(user->second.names, holdings_.names_of(session.id()));
      if (--user->second.clients == 0) users_.erase(user);
    }
    const auto left = holdings_.end(session.id());
    spdlog::debug("process {} has ended its connection, and held {} names alone", session.pid(),
                  left.size());
    for (const std::string& name : left) watch_list_.add(name);
    // It may have had messages on their way, which held what others made.
    watch_list_.hurry();
  } catch (const std::exception& error) {
    spdlog::error("the next sweep looks at all names, after: {}", error.what());
    sweeps_ = 0;
  }
  sessions_.erase(session.id());
}

Frame Server::answer(Session& session, const Frame& request) {
  if (request.verb == Verb::hello) {
    session.set_greeted();
    if (request.pid != 0) session.set_pid(request.pid);
    return {.verb = Verb::welcome, .pid = static_cast<std::uint32_t>(::getpid())};
  }
  if (!session.greeted()) return refused("say hello first");
  switch (request.verb) {
    case Verb::hold:
      return hold(session, request);
    case Verb::release:
      return release(session, request);
    case Verb::report:
      return report(request.first);
    default:
      return refused("that is for the manager to say");
  }
}

Frame Server::hold(Session& session, const Frame& request) {
  const std::size_t held = holdings_.names_of(session.id());
  // Who tells all it holds again, after an answer was lost, has no more than before.
  const auto added =
      static_cast<std::size_t>(std::ranges::count_if(request.names, [&](const std::string& name) {
        return !holdings_.is_held_by(session.id(), name);
      }));
  if (held + added > options_.limits.max_names)
    return refused(concat("a client may hold ", options_.limits.max_names,
                          " names (--max-names), and this one holds ", held));
  User& user = users_[session.uid()];
  const std::size_t most = share_of(session.uid(), kMostNamesInAll);
  if (user.names + added > most)
    return refused(
        concat("user ", session.uid(), " holds ", user.names, " names, of at most ", most));
  for (const std::string& name : request.names)
    if (!may_name(session.uid(), name)) return refused(concat(name, " is another user's"));
  for (const std::string& name : request.names) holdings_.hold(session.id(), name);
  user.names += holdings_.names_of(session.id()) - held;
  return {.verb = Verb::done};
}

Frame Server::release(Session& session, const Frame& request) {
  for (const std::string& name : request.names) {
    // Only what it held: to be looked at is a right, too.
    if (!holdings_.is_held_by(session.id(), name)) continue;
    --users_[session.uid()].names;
    // Most are gone; to keep those, too, would let one client fill the list.
    if (holdings_.release(session.id(), name) && exists(name)) watch_list_.add(name);
  }
  return {.verb = Verb::done};
}

Frame Server::report(std::uint32_t first) const {
  Frame frame{
      .verb = Verb::clients, .first = first, .total = static_cast<std::uint32_t>(sessions_.size())};
  std::uint32_t number = 0;
  for (const auto& [id, session] : sessions_) {
    if (number++ < first) continue;
    if (frame.clients.size() == manager::kMostClients) break;
    frame.clients.push_back({.pid = session->pid(),
                             .uid = session->uid(),
                             .connected_s = session->connected_s(),
                             .messages = session->messages(),
                             .holds = holdings_.names_of(id)});
  }
  return frame;
}

void Server::sweep() {
  sweep_timer_.expires_after(seconds(options_.limits.sweep_s));
  sweep_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) sweep();
  });
  if (walk_) return;
  walk_.emplace(options_.prefix);
  // Now and then: they may have lost it without knowing.
  sweeps_all_ = sweeps_++ % kSweepsToAll == 0;
  sweep_on();
}

void Server::sweep_on() {
  try {
    // Not faster than they are looked at, or all would have to be kept; but on, whoever fills the
    // list meanwhile.
    const bool wait = watch_list_.fresh() >= kMostFresh && ++walk_waits_ < kMostWalkWaits;
    std::string name;
    for (int i = 0; !wait && i < kNamesATurn; ++i) {
      walk_waits_ = 0;
      if (!walk_->step(name)) return walk_.reset();
      if (manager::is_segment_name(name) && !watch_list_.contains(name) &&
          (sweeps_all_ || !holdings_.is_held(name)))
        watch_list_.add(std::move(name));
    }
    walk_pause_.expires_after(wait ? kWalkPause : std::chrono::milliseconds(0));
    walk_pause_.async_wait([this](const boost::system::error_code& failed) {
      if (!failed) sweep_on();
    });
  } catch (...) {
    walk_.reset();  // the next sweep begins again
    throw;
  }
}

void Server::look_for_idleness() {
  // Idle at two looks in a row, so after one to two halves.
  idle_timer_.expires_after(seconds(options_.idle_exit_s / 2));
  idle_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) look_for_idleness();
  });
  const bool is_idle = sessions_.empty() && watch_list_.empty();
  if (!std::exchange(was_idle_, is_idle) || !is_idle) return;
  Fd listener = on_idle(Fd{listener_.release()});
  if (!listener) return;
  listener_.assign(listener.release());
  wait_for_client();
}

void Server::drain() {
  boost::system::error_code ignored;
  for (auto* timer : {&accept_pause_, &sweep_timer_, &walk_pause_, &idle_timer_}) timer->cancel();
  listener_.close(ignored);
  const auto sessions = std::exchange(sessions_, {});
  for (const auto& [id, session] : sessions) session->finish();
  watch_list_.finish();
}

}  // namespace shoal::tools
