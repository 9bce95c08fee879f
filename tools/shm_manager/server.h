#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "shoal/tools/shm_manager/holdings.h"
#include "shoal/tools/shm_manager/serve_options.h"
#include "shoal/tools/shm_manager/session.h"
#include "shoal/tools/shm_manager/watch_list.h"

namespace shoal::tools {

// The manager: accepts clients, keeps what they say they hold, and has the watch list look at what
// nobody says so of. It decides nothing about life and death itself: the locks on the segments do,
// so a manager that was killed and one that knows nothing yet do no harm.
class Server {
 public:
  // `listener`: a listening SOCK_SEQPACKET socket.
  Server(boost::asio::io_context& loop, Fd listener, const ServeOptions& options);

  void start();
  void set_limits(const Limits& limits);
  // Takes no more clients, ends the connections, and removes what is orphaned now.
  void drain();
  // Called when there has been nothing to watch for as long as the options say; gets the listener,
  // and gives it back if it is not to end after all.
  std::function<Fd(Fd)> on_idle;

  [[nodiscard]] std::size_t clients() const { return sessions_.size(); }
  [[nodiscard]] std::size_t names() const { return holdings_.names(); }
  [[nodiscard]] std::size_t watched() const { return watch_list_.size(); }
  [[nodiscard]] std::size_t removed() const { return removed_; }

 private:
  void wait_for_client();
  void accept_clients();
  void pause_accepting();
  void admit(Fd socket);
  void sweep();
  // A part of it; then it is the clients' turn.
  void sweep_on();
  void look_for_idleness();
  void end(Session& session) noexcept;
  // What one user may take of what there is for all.
  [[nodiscard]] static std::size_t share_of(std::uint32_t uid, std::size_t all);
  [[nodiscard]] manager::Frame answer(Session& session, const manager::Frame& request);
  [[nodiscard]] manager::Frame hold(Session& session, const manager::Frame& request);
  [[nodiscard]] manager::Frame release(Session& session, const manager::Frame& request);
  [[nodiscard]] manager::Frame report(std::uint32_t first) const;

  boost::asio::io_context& loop_;
  ServeOptions options_;
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer accept_pause_, sweep_timer_, walk_pause_, idle_timer_;
  Holdings holdings_;
  WatchList watch_list_;
  std::map<Session::Id, std::shared_ptr<Session>> sessions_;
  struct User {
    std::size_t clients = 0, names = 0;
  };
  std::map<std::uint32_t, User> users_;  // by uid
  unsigned sweeps_ = 0;
  std::optional<shm_directory::Walk> walk_;  // while a sweep goes on
  int walk_waits_ = 0;                       // in a row
  bool sweeps_all_ = false;                  // also what clients say they hold
  Session::Id next_id_ = 1;
  std::size_t removed_ = 0;
  bool was_idle_ = false;
};

}  // namespace shoal::tools
