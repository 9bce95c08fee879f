#include "shoal/tools/shm_manager/watch_list.h"

#include <algorithm>
#include <utility>

#include "shoal/runtime/shm/orphans.h"

namespace shoal::tools {
namespace {

constexpr std::size_t kAtATime = 256;

// A process that ends closes its connection and its segments one after the other, so the first look
// may come too early; the looks that follow are ever further apart.
constexpr std::chrono::milliseconds kFirstPause{10}, kLongestPause{1000};
constexpr int kShare = 10;

}  // namespace

WatchList::WatchList(boost::asio::io_context& loop, std::function<bool(const std::string&)> is_held)
    : is_held_(std::move(is_held)), timer_(loop) {}

void WatchList::add(std::string name) {
  fresh_.push_back(std::move(name));
  pause_ = {};
  schedule({});
}

void WatchList::hurry() {
  if (names_.empty()) return;
  pause_ = std::max<Clock::duration>(kFirstPause, spent_ * kShare);
  schedule(pause_);
}

void WatchList::schedule(Clock::duration in) {
  const auto at = Clock::now() + in;
  if (at >= due_) return;
  due_ = at;
  timer_.expires_at(at);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) turn();
  });
}

void WatchList::look_at(const std::string& name) {
  if (is_held_(name)) {
    names_.erase(name);
    return;
  }
  switch (reap_segment(name)) {
    case ReapOutcome::removed:
      if (on_removed) on_removed(name);
      names_.erase(name);
      break;
    case ReapOutcome::live:
      names_.insert(name);
      break;
    case ReapOutcome::gone:
    // No lock of it will ever be free for us to see.
    case ReapOutcome::foreign:
    case ReapOutcome::unknown:
      names_.erase(name);
      break;
  }
}

void WatchList::turn() {
  due_ = Clock::time_point::max();
  const auto begin = Clock::now();
  const bool all_fresh = fresh_.size() >= kAtATime;
  for (std::size_t looked = 0; looked < kAtATime; ++looked) {
    std::vector<std::string>& from = fresh_.empty() ? pass_ : fresh_;
    if (from.empty()) break;
    const std::string name = std::move(from.back());
    from.pop_back();
    look_at(name);
  }
  if (!all_fresh) spent_ += Clock::now() - begin;
  if (!fresh_.empty() || !pass_.empty()) return schedule({});
  if (names_.empty()) return;
  pass_.assign(names_.begin(), names_.end());
  const auto fair = std::exchange(spent_, {}) * kShare;
  pause_ = std::clamp<Clock::duration>(2 * pause_, kFirstPause, kLongestPause);
  schedule(std::max<Clock::duration>(pause_, fair));
}

void WatchList::finish() {
  for (const std::string& name : std::exchange(fresh_, {})) look_at(name);
  pass_.assign(names_.begin(), names_.end());
  for (const std::string& name : std::exchange(pass_, {})) look_at(name);
}

}  // namespace shoal::tools
