#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

namespace shoal::tools {

// Names that no client holds, and that are looked at until they are gone: reaped as soon as nobody
// has a lock on them. What holds them meanwhile: a process that did not tell, or is just ending; a
// message on its way.
//
// New ones are looked at at once, all of them again and again, twice a second at least. Some
// hundred are looked at at a time, so that clients do not wait for it. For the loop's thread.
class WatchList {
 public:
  // `is_held`: whether a client has come to hold the name after all.
  WatchList(boost::asio::io_context& loop, std::function<bool(const std::string&)> is_held);

  // Looks at it at once.
  void add(std::string name);
  [[nodiscard]] bool contains(const std::string& name) const { return names_.contains(name); }
  // Something has ended, which may have freed any of them: looks at all soon.
  void hurry();
  // Called with those just removed from /dev/shm, and with an orphan that could not be.
  std::function<void(const std::vector<std::string>&)> on_removed;
  std::function<void(const std::string&)> on_kept;

  [[nodiscard]] bool empty() const { return fresh_.empty() && names_.empty(); }
  [[nodiscard]] std::size_t size() const { return fresh_.size() + names_.size(); }
  // Looks at all of them now, however long it takes: at the end.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void schedule(Clock::time_point at);
  void turn();
  void look_at_some();
  void look_at(const std::string& name);

  std::function<bool(const std::string&)> is_held_;
  boost::asio::steady_timer timer_;
  std::vector<std::string> fresh_;         // not looked at yet
  std::unordered_set<std::string> names_;  // were held when last looked at
  std::vector<std::string> pass_;          // of these, still to be looked at this time
  std::vector<std::string> removed_;       // in this turn
  Clock::duration pause_{};                // before the next pass
  Clock::duration cost_{}, last_cost_{};   // of this pass so far, and of the one before
  Clock::time_point pass_due_ = Clock::time_point::max();
  Clock::time_point turn_due_ = Clock::time_point::max();
};

}  // namespace shoal::tools
