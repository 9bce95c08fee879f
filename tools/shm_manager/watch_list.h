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
// Some hundred names are looked at at a time, so that clients do not wait for it, and all of them
// take at most a tenth of the time. For the loop's thread.
class WatchList {
 public:
  // `is_held`: whether a client has come to hold the name after all.
  WatchList(boost::asio::io_context& loop, std::function<bool(const std::string&)> is_held);

  // Looks at it at once.
  void add(std::string name);
  [[nodiscard]] bool contains(const std::string& name) const { return names_.contains(name); }
  // Something has ended, which may have freed any of them: looks at all soon.
  void hurry();
  // Called each time that one is removed from /dev/shm.
  std::function<void(const std::string&)> on_removed;

  [[nodiscard]] bool empty() const { return fresh_.empty() && names_.empty(); }
  [[nodiscard]] std::size_t size() const { return fresh_.size() + names_.size(); }
  // Looks at all of them now, however long it takes: at the end.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void schedule(Clock::duration in);
  void turn();
  void look_at(const std::string& name);

  std::function<bool(const std::string&)> is_held_;
  boost::asio::steady_timer timer_;
  std::vector<std::string> fresh_;         // not looked at yet
  std::unordered_set<std::string> names_;  // were held when last looked at
  std::vector<std::string> pass_;          // of these, still to be looked at this time
  Clock::duration pause_{}, spent_{};      // before the next pass; on this one, so far
  Clock::time_point due_ = Clock::time_point::max();
};

}  // namespace shoal::tools
