#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "shoal/runtime/shm/orphans.h"

namespace shoal::tools {

// Names that no client holds, and that are looked at until they are gone: reaped as soon as nobody
// has a lock on them. What holds them meanwhile: a process that did not tell, or is just ending; a
// message on its way.
//
// New ones are looked at at once, all of them again and again: twice a second, or one after the
// other for half of the time if they are too many for that. Threads of its own look, so that
// clients do not wait for it; all calls, also those to the caller, are made in the loop's thread.
class WatchList {
 public:
  // `is_held`: whether a client has come to hold the name after all.
  WatchList(boost::asio::io_context& loop, std::function<bool(const std::string&)> is_held);
  WatchList(const WatchList&) = delete;
  WatchList& operator=(const WatchList&) = delete;

  // Looks at it at once. Once only, if it is added again before that.
  void add(std::string name);
  [[nodiscard]] bool contains(const std::string& name) const { return names_.contains(name); }
  // Something has ended, which may have freed any of them: looks at all soon.
  void hurry();
  // Called with those just removed from /dev/shm, and with an orphan that could not be.
  std::function<void(const std::vector<std::string>&)> on_removed;
  std::function<void(const std::string&)> on_kept;

  [[nodiscard]] bool empty() const { return size() == 0; }
  // Those that are still to be looked at for the first time.
  [[nodiscard]] std::size_t fresh() const { return fresh_.size(); }
  [[nodiscard]] std::size_t size() const { return fresh_.size() + names_.size() + given_; }
  // Looks at all of them now, however long it takes: at the end.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct Batch {
    std::vector<std::string> names;
    std::vector<ReapOutcome> outcomes;  // of each
    bool of_pass = false;
  };
  // Gives the threads what they have room for, or sets the clock for when there will be something.
  void go_on();
  [[nodiscard]] Batch next_batch();
  [[nodiscard]] Batch take(std::deque<std::string>& from);
  void give(Batch batch);
  void take_back(const Batch& batch);
  void learn(const std::string& name, ReapOutcome outcome);
  void end_pass();

  boost::asio::io_context& loop_;
  std::function<bool(const std::string&)> is_held_;
  boost::asio::steady_timer timer_;
  std::deque<std::string> fresh_;                     // not looked at yet
  std::unordered_set<std::string_view> fresh_names_;  // the same
  std::unordered_set<std::string> names_;             // were held when last looked at
  std::deque<std::string> pass_;                      // of these, still to be looked at this time
  std::vector<std::string> removed_;                  // in this batch
  std::size_t given_ = 0;                             // names that are being looked at
  std::size_t batches_ = 0;                           // that they are in
  bool passing_ = false;
  bool pass_is_next_ = false;         // where there are fresh ones, too
  Clock::duration pause_{}, cost_{};  // between passes; of the last one
  Clock::time_point pass_began_{};
  Clock::time_point pass_due_ = Clock::time_point::max();
  // The last member: its threads end first.
  boost::asio::thread_pool threads_;
};

}  // namespace shoal::tools
