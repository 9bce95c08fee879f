#include "shoal/tools/shm_manager/watch_list.h"

#include <algorithm>
#include <utility>

#include "shoal/runtime/shm/orphans.h"

namespace shoal::tools {
namespace {

constexpr std::size_t kAtATime = 256;

// A process that ends closes its connection and its segments one after the other, so the first look
// may come too early; the looks that follow are ever further apart.
constexpr std::chrono::milliseconds kFirstPause{10}, kLongestPause{500};

// A pass is followed by a pause a few times as long, up to the longest.
constexpr int kShare = 4;

}  // namespace

WatchList::WatchList(boost::asio::io_context& loop, std::function<bool(const std::string&)> is_held)
    : is_held_(std::move(is_held)), timer_(loop) {}

void WatchList::add(std::string name) {
  fresh_.push_back(std::move(name));
  schedule(Clock::now());
}

void WatchList::hurry() {
  if (names_.empty()) return;
  pause_ = std::clamp<Clock::duration>(last_cost_ * kShare, kFirstPause, kLongestPause);
  pass_due_ = std::min(pass_due_, Clock::now() + pause_);
  schedule(pass_due_);
}

void WatchList::schedule(Clock::time_point at) {
  if (at >= turn_due_) return;
  turn_due_ = at;
  timer_.expires_at(at);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) turn();
  });
}

void WatchList::look_at(const std::string& name) {
  // Whether a client says that it holds it does not matter: whether somebody has a lock does.
  switch (const ReapOutcome outcome = reap_segment(name)) {
    case ReapOutcome::removed:
      names_.erase(name);
      removed_.push_back(name);
      break;
    case ReapOutcome::live:
    case ReapOutcome::failed:
      if (is_held_(name)) {
        names_.erase(name);
      } else {
        names_.insert(name);
      }
      break;
    case ReapOutcome::gone:
    // No lock of it will ever be free for us to see.
    case ReapOutcome::foreign:
    case ReapOutcome::unknown:
      names_.erase(name);
      if (outcome != ReapOutcome::gone && on_kept) on_kept(name);
      break;
  }
}

void WatchList::look_at_some() {
  const auto begin = Clock::now();
  std::size_t looked = 0;
  for (; looked < kAtATime && !fresh_.empty(); ++looked) {
    const std::string name = std::move(fresh_.back());
    fresh_.pop_back();
    look_at(name);
  }
  if (looked == kAtATime || Clock::now() < pass_due_) return;
  if (pass_.empty()) pass_.assign(names_.begin(), names_.end());
  for (; looked < kAtATime && !pass_.empty(); ++looked) {
    const std::string name = std::move(pass_.back());
    pass_.pop_back();
    look_at(name);
  }
  cost_ += Clock::now() - begin;
  if (!pass_.empty()) return;
  last_cost_ = std::exchange(cost_, {});
  pause_ = std::clamp<Clock::duration>(std::max<Clock::duration>(2 * pause_, last_cost_ * kShare),
                                       kFirstPause, kLongestPause);
  pass_due_ = Clock::time_point::max();
}

void WatchList::turn() {
  turn_due_ = Clock::time_point::max();
  try {
    look_at_some();
    if (!removed_.empty() && on_removed) on_removed(removed_);
  } catch (const std::exception&) {
    // Out of memory: what was lost here the next sweep finds.
    pause_ = kLongestPause;
  }
  removed_.clear();
  if (names_.empty()) {
    pause_ = {};
    pass_due_ = Clock::time_point::max();
  } else if (pass_due_ == Clock::time_point::max()) {
    pass_due_ = Clock::now() + std::max<Clock::duration>(pause_, kFirstPause);
  }
  schedule(fresh_.empty() ? pass_due_ : Clock::now());
}

void WatchList::finish() {
  for (const std::string& name : std::exchange(fresh_, {})) look_at(name);
  for (const std::string& name : std::exchange(names_, {})) look_at(name);
  if (!removed_.empty() && on_removed) on_removed(removed_);
}

}  // namespace shoal::tools
