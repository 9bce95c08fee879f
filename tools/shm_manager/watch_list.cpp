#include "shoal/tools/shm_manager/watch_list.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <memory>
#include <new>
#include <utility>

namespace shoal::tools {
namespace {

constexpr std::size_t kThreads = 2;
constexpr std::size_t kAtATime = 256;

// A process that ends closes its connection and its segments one after the other, so the first look
// may come too early; the looks that follow are ever further apart.
constexpr std::chrono::milliseconds kFirstPause{10}, kLongestPause{500};

// A pass is followed by a pause a few times as long, up to the longest.
constexpr int kShare = 4;

}  // namespace

WatchList::WatchList(boost::asio::io_context& loop, std::function<bool(const std::string&)> is_held)
    : loop_(loop), is_held_(std::move(is_held)), timer_(loop), threads_(kThreads) {}

void WatchList::add(std::string name) {
  if (fresh_names_.contains(name)) return;
  fresh_.push_back(std::move(name));
  fresh_names_.insert(fresh_.back());
  go_on();
}

void WatchList::hurry() {
  if (names_.empty()) return;
  pause_ = std::clamp<Clock::duration>(cost_ * kShare, kFirstPause, kLongestPause);
  pass_due_ = std::min(pass_due_, Clock::now() + pause_);
  go_on();
}

void WatchList::go_on() {
  while (batches_ < kThreads) {
    Batch batch = next_batch();
    if (batch.names.empty()) break;
    give(std::move(batch));
  }
  if (batches_ > 0 || names_.empty()) return;
  if (pass_due_ == Clock::time_point::max()) pass_due_ = Clock::now() + pause_;
  timer_.expires_at(pass_due_);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) go_on();
  });
}

WatchList::Batch WatchList::next_batch() {
  if (!passing_ && !names_.empty() && Clock::now() >= pass_due_) {
    pass_.assign(names_.begin(), names_.end());
    pass_began_ = Clock::now();
    pass_due_ = Clock::time_point::max();
    passing_ = true;
  }
  // In turns, so that no flood of new ones keeps the others from being looked at.
  pass_is_next_ = !pass_.empty() && (fresh_.empty() || !pass_is_next_);
  Batch batch = take(pass_is_next_ ? pass_ : fresh_);
  batch.of_pass = pass_is_next_;
  return batch;
}

WatchList::Batch WatchList::take(std::deque<std::string>& from) {
  Batch batch;
  const auto count = static_cast<std::ptrdiff_t>(std::min(from.size(), kAtATime));
  if (&from == &fresh_)
    for (auto name = from.begin(); name != from.begin() + count; ++name) fresh_names_.erase(*name);
  batch.names.assign(std::make_move_iterator(from.begin()),
                     std::make_move_iterator(from.begin() + count));
  from.erase(from.begin(), from.begin() + count);
  batch.outcomes.resize(batch.names.size());
  return batch;
}

void WatchList::give(Batch batch) {
  ++batches_;
  given_ += batch.names.size();
  boost::asio::post(threads_, [this, given = std::make_shared<Batch>(std::move(batch))] {
    std::ranges::transform(given->names, given->outcomes.begin(), reap_segment);
    for (;;) {
      try {
        boost::asio::post(loop_, [this, given] { take_back(*given); });
        return;
      } catch (const std::bad_alloc&) {
        ::poll(nullptr, 0, 100);  // others may free some
      }
    }
  });
}

void WatchList::take_back(const Batch& batch) {
  --batches_;
  given_ -= batch.names.size();
  for (std::size_t i = 0; i < batch.names.size(); ++i) learn(batch.names[i], batch.outcomes[i]);
  if (!removed_.empty() && on_removed) on_removed(removed_);
  removed_.clear();
  if (passing_ && pass_.empty() && batch.of_pass) end_pass();
  if (names_.empty()) {
    pause_ = {};
    pass_due_ = Clock::time_point::max();
  }
  go_on();
}

void WatchList::learn(const std::string& name, ReapOutcome outcome) {
  // Whether a client says that it holds it does not matter: whether somebody has a lock does.
  switch (outcome) {
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

void WatchList::end_pass() {
  passing_ = false;
  cost_ = Clock::now() - pass_began_;
  pause_ = std::clamp<Clock::duration>(std::max<Clock::duration>(2 * pause_, cost_ * kShare),
                                       kFirstPause, kLongestPause);
}

void WatchList::finish() {
  threads_.join();
  fresh_names_.clear();
  for (const std::string& name : std::exchange(fresh_, {})) (void)reap_segment(name);
  for (const std::string& name : std::exchange(names_, {})) (void)reap_segment(name);
}

}  // namespace shoal::tools
