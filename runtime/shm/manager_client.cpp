#include "shoal/runtime/shm/manager_client.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/manager_address.h"
#include "shoal/runtime/shm/manager_connection.h"
#include "shoal/runtime/shm/manager_start.h"

namespace shoal::manager {
namespace {

// A manager answers within a millisecond, or something is wrong with it; if it has answered before,
// most likely with the machine, which is too busy to let it run.
constexpr double kPatienceMs = 2000;
constexpr double kLongPatienceMs = 10'000;
// Where it would be no great loss not to connect: how long it may take, and for how long it is not
// tried again.
constexpr double kShortPatienceMs = 200;
constexpr double kQuietS = 5;

// A manager that ends as soon as it has started will do so again.
constexpr int kMostStarts = 3;

// How many names are told at a time before they are used.
constexpr std::size_t kAhead = 16;
static_assert(kAhead <= kMostNames);

// This process as a client. Guarded by the pool's lock, and across fork by its handlers.
struct Membership {
  std::optional<Connection> connection;
  std::optional<Connection> childs;    // between prepare_fork and after_fork_…
  std::set<std::string> held;          // also what is held ahead
  bool told = false;                   // whether the connection's manager knows of all in `held`
  std::vector<SegmentId> ahead;        // held, and not yet given to a segment
  std::string prefix;                  // of theirs
  std::vector<std::string> forgotten;  // the manager still believes that we hold them
  Deadline quiet_until = in_ms(0);     // no more of what is no great loss, after it did not work
};

Membership& membership() {
  static auto* instance =
      new Membership;  // segments are still given back while statics are destroyed
  return *instance;
}

// Before there are threads, as SegmentPool::instance.
[[maybe_unused]] const Membership& made_at_load = membership();

Connection connect_or_start(Deadline deadline) {
  const std::string path = socket_path();
  for (int starts = 0;; ++starts) {
    try {
      return Connection(path, deadline);
    } catch (const Error& error) {
      // Nobody is there, or a manager that was just about to end.
      const bool gone =
          error.kind() == ErrorKind::not_found || error.kind() == ErrorKind::peer_gone;
      if (!gone || deadline.expired() || starts == kMostStarts) throw;
    }
    start_private(path, deadline);
  }
}

// What its manager believes ends with it.
void disconnect(Membership& self) noexcept {
  self.connection.reset();
  self.told = false;
  self.forgotten.clear();
}

void tell_all(Membership& self, Deadline deadline) {
  Frame frame{.verb = Verb::hold};
  const auto send = [&] {
    if (!frame.names.empty()) (void)self.connection->ask(frame, deadline);
    frame.names.clear();
  };
  for (const std::string& name : self.held) {
    frame.names.push_back(name);
    if (frame.names.size() == kMostNames) send();
  }
  send();
  self.told = true;
}

// The manager knows of all that is held, of which `names` are new; without any, it is enough that
// the manager that was told is still there. `connect` makes a connection.
template <class Connect>
void tell(Membership& self, const std::vector<std::string>& names, Deadline deadline,
          Connect&& connect) {
  if (self.connection && names.empty() && !self.connection->is_open()) disconnect(self);
  for (;;) {
    try {
      if (!self.connection) self.connection = connect();
      if (!self.told) return tell_all(self, deadline);
      if (!names.empty())
        (void)self.connection->ask({.verb = Verb::hold, .names = names}, deadline);
      return;
    } catch (const Error& error) {
      // A refusal is an answer; after any other error what comes belongs to no question any more.
      // Part of all, which a refusal leaves told, is worth nothing either.
      const bool refused = error.kind() == ErrorKind::limit_reached;
      if (!refused || !self.told) disconnect(self);
      if (error.kind() != ErrorKind::peer_gone || deadline.expired()) throw;
    } catch (...) {
      disconnect(self);
      throw;
    }
  }
}

// Tells, and holds none of them if that fails.
template <class Connect>
void hold(Membership& self, const std::vector<std::string>& names, Deadline deadline,
          Connect&& connect) {
  try {
    self.held.insert(names.begin(), names.end());
    tell(self, names, deadline, connect);
  } catch (...) {
    for (const std::string& name : names) self.held.erase(name);
    throw;
  }
}

// What it is told here is no great loss.
void tell_released(Membership& self, std::vector<std::string> names, Deadline deadline) noexcept {
  if (!self.connection || names.empty()) return;
  try {
    (void)self.connection->ask({.verb = Verb::release, .names = std::move(names)}, deadline);
  } catch (const std::exception&) {
    disconnect(self);
  }
}

// How long that may take: a manager that never answered here gets less.
Deadline patience_of(const Membership& self) {
  return in_ms(self.told ? kPatienceMs : kShortPatienceMs);
}

void leave_ahead(Membership& self) {
  for (const SegmentId& id : std::exchange(self.ahead, {})) forget(segment_name(self.prefix, id));
}

template <class Connect>
void hold_ahead(Membership& self, std::size_t count, Deadline deadline, Connect&& connect) {
  std::vector<SegmentId> ids(count);
  std::ranges::generate(ids, SegmentId::random);
  std::vector<std::string> names;
  names.reserve(count);
  for (const SegmentId& id : ids) names.push_back(segment_name(self.prefix, id));
  tell_released(self, std::exchange(self.forgotten, {}), deadline);
  hold(self, names, deadline, connect);
  self.ahead = std::move(ids);
}

}  // namespace

SegmentId hold_new(const std::string& prefix) {
  if (is_off()) return SegmentId::random();
  Membership& self = membership();
  const Deadline deadline = in_ms(self.told ? kLongPatienceMs : kPatienceMs);
  const auto connect = [] { return connect_or_start(in_ms(kPatienceMs)); };
  if (prefix != self.prefix) {
    leave_ahead(self);
    self.prefix = prefix;
  }
  try {
    if (self.ahead.empty()) {
      hold_ahead(self, kAhead, deadline, connect);
    } else {
      tell(self, {}, deadline, connect);
    }
  } catch (const Error& error) {
    // The manager may still let us have one.
    if (error.kind() != ErrorKind::limit_reached) throw;
    leave_ahead(self);
    hold_ahead(self, 1, deadline, connect);
  }
  const SegmentId id = self.ahead.back();
  self.ahead.pop_back();
  return id;
}

void hold_if_reachable(const std::string& name) noexcept {
  Membership& self = membership();
  try {
    if (is_off() || !self.quiet_until.expired()) return;
    const Deadline deadline = in_ms(kShortPatienceMs);
    hold(self, {name}, deadline, [&] { return Connection(socket_path(), deadline); });
  } catch (const std::exception&) {
    self.quiet_until = in_seconds(kQuietS);
  }
}

void release(const std::string& name) noexcept {
  Membership& self = membership();
  if (self.held.erase(name) == 0) return;
  try {
    tell_released(self, {name}, patience_of(self));
  } catch (const std::exception&) {
    disconnect(self);  // no memory
  }
}

void forget(const std::string& name) noexcept {
  Membership& self = membership();
  if (self.held.erase(name) == 0 || !self.connection) return;
  try {
    self.forgotten.push_back(name);
    // As a rule the next names are told of sooner, and these with them.
    if (self.forgotten.size() >= kMostNames)
      tell_released(self, std::exchange(self.forgotten, {}), patience_of(self));
  } catch (const std::exception&) {
    disconnect(self);
  }
}

void prepare_fork() noexcept {
  Membership& self = membership();
  if (!self.connection) return;
  try {
    self.childs.emplace(socket_path(), in_ms(kShortPatienceMs));
  } catch (const std::exception&) {
    // The manager finds out about the child in another way, if later.
  }
}

void after_fork_in_parent() noexcept { membership().childs.reset(); }

void after_fork_in_child() noexcept {
  Membership& self = membership();
  self.connection = std::move(self.childs);
  self.childs.reset();
  self.told = false;
  try {
    // The parent will use them.
    for (const SegmentId& id : std::exchange(self.ahead, {}))
      self.held.erase(segment_name(self.prefix, id));
  } catch (const std::exception&) {
    // No memory: the manager hears of names that are the parent's alone, which does no harm.
  }
  self.forgotten.clear();
}

}  // namespace shoal::manager
