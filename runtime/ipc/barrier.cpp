#include "shoal/runtime/ipc/barrier.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <type_traits>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/spin.h"
#include "shoal/runtime/ipc/shared_words.h"

namespace shoal {
namespace {

constexpr WordsKind kKind{.name = "Barrier", .magic = 0x5242'4853 /* "SHBR" */, .version = 1};

// The state of all, which changes in one step:
//   bits 0..31   round, counted from 1; another after each success and each reset
//   bits 32..46  successes: who sees another count than when it arrived has got through, whatever
//                came afterwards, since without it there is no further success
//   bit 47       broken, in this round
//   bits 48..63  who broke it last; its place says why
// Counts wrap around; by then nobody remembers the same ones.
using Phase = std::uint64_t;
constexpr Phase kRoundMask = 0xffff'ffff;
constexpr Phase kSuccessesMask = Phase{0x7fff} << 32;
constexpr Phase kBroken = Phase{1} << 47;
constexpr int kBreakerShift = 48;

bool is_broken(Phase phase) { return (phase & kBroken) != 0; }
// Never 0, which is the state that nobody has arrived in.
Phase next_round(Phase phase) { return std::max<Phase>((phase + 1) & kRoundMask, 1); }
Phase completed(Phase phase) {
  const Phase successes = (phase + (Phase{1} << 32)) & kSuccessesMask;
  return (phase & (~Phase{0} << kBreakerShift)) | successes | next_round(phase);
}
Phase broken(Phase phase, std::uint64_t breaker) {
  return (phase & (kRoundMask | kSuccessesMask)) | kBroken | breaker << kBreakerShift;
}
Phase whole_again(Phase phase) { return (phase & ~(kRoundMask | kBroken)) | next_round(phase); }

// Why a barrier broke, as the layout has it.
enum class Cause : std::uint32_t { death = 1, deadline = 2, poison = 3 };

// In doubt, as when a place does not make sense, peer_gone.
ErrorKind kind_of(Cause cause) {
  if (cause == Cause::deadline) return ErrorKind::timed_out;
  return cause == Cause::poison ? ErrorKind::worker_failed : ErrorKind::peer_gone;
}

// One rank's place. Only its party writes there, except poison() for one that has ended.
struct Place {
  std::atomic<Phase> arrived;  // the phase in which it did last
  std::atomic<Party> party;    // whose it is; 0 before it joined
  std::atomic<Cause> cause;
  SharedText reason;  // with `cause`, why it broke the barrier, if it is the one who did
  std::array<std::byte, 8> unused;
};
static_assert(sizeof(Place) == 256 && std::is_standard_layout_v<Place>);

struct Words {
  WordsMark mark;
  std::uint32_t world_size;  // never changes
  FutexWord bell;            // rung after each change of phase
  FutexWord sleepers;
  std::uint32_t unused;
  std::atomic<Phase> phase;
  std::array<std::byte, 24> reserved;
};
static_assert(sizeof(Words) == 64 && std::is_standard_layout_v<Words> &&
              std::atomic<Phase>::is_always_lock_free);

Words& words_of(const Tensor& tensor) { return *static_cast<Words*>(tensor.data_ptr()); }

std::span<Place> places_of(const Tensor& tensor) {
  // By its size, which has been checked, and not by what it says.
  const std::size_t count = (tensor.nbytes() - sizeof(Words)) / sizeof(Place);
  return {reinterpret_cast<Place*>(static_cast<std::byte*>(tensor.data_ptr()) + sizeof(Words)),
          count};
}

const SharedBlock& block_of(const Tensor& tensor) { return *tensor.storage()->block(); }

Place& place_of(const Tensor& tensor, int rank, std::string_view call) {
  const auto places = places_of(tensor);
  check(rank >= 0 && static_cast<std::size_t>(rank) < places.size(), ErrorKind::invalid_argument,
        call, "rank ", rank, " in a world of ", places.size());
  return places[static_cast<std::size_t>(rank)];
}

// Seq_cst: of two ranks that arrive last at the same time at least one sees both. Acquire as well:
// who sees all ranks sees what they wrote, and passes it on with the phase.
bool has_arrived(const Place& place, Phase phase) {
  return place.arrived.load(std::memory_order_seq_cst) == phase;
}

bool all_arrived(const Tensor& tensor, Phase phase) {
  return std::ranges::all_of(places_of(tensor),
                             [&](const Place& place) { return has_arrived(place, phase); });
}

// From `phase`, in one step, unless others were faster. Whoever sees the change also sees what was
// written before.
void change(const Tensor& tensor, Phase phase, Phase to) {
  Words& w = words_of(tensor);
  if (!w.phase.compare_exchange_strong(phase, to, std::memory_order_seq_cst)) return;
  // If this process dies here, the others see the change when they look next.
  w.bell.fetch_add(1, std::memory_order_seq_cst);
  ring(w.bell, w.sleepers);
}

// Both first, so that whoever finds the barrier broken finds them.
void break_in(const Tensor& tensor, int rank, Phase phase, Cause cause, std::string_view reason) {
  Place& mine = place_of(tensor, rank, "Barrier");
  mine.cause.store(cause, std::memory_order_relaxed);
  mine.reason.write(reason);
  change(tensor, phase, broken(phase, static_cast<std::uint64_t>(rank)));
}

[[noreturn]] void throw_broken(const Tensor& tensor) {
  const Phase phase = words_of(tensor).phase.load(std::memory_order_acquire);
  const auto places = places_of(tensor);
  const Place& breaker = places[std::min<std::size_t>(phase >> kBreakerShift, places.size() - 1)];
  throw Error({.kind = kind_of(breaker.cause.load(std::memory_order_relaxed)),
               .call = "Barrier::wait",
               .reason = breaker.reason.read(),
               .remedy = "The barrier is broken until reset() is called"});
}

// "rank 1", or "ranks 1 (process 12), 3 and 17 more"; empty for none.
class RankList {
 public:
  void add(std::size_t rank, std::uint32_t pid = 0) {
    constexpr std::size_t kRoom = 120;  // of SharedText::kMaxBytes
    ++count_;
    if (text_.size() > kRoom) {
      ++left_out_;
      return;
    }
    text_ += concat(text_.empty() ? "" : ", ", rank);
    if (pid != 0) text_ += concat(" (process ", pid, ")");
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    const std::string more = left_out_ == 0 ? "" : concat(" and ", left_out_, " more");
    return concat(count_ == 1 ? "rank " : "ranks ", text_, more);
  }
  [[nodiscard]] const char* have() const { return count_ == 1 ? " has" : " have"; }

 private:
  std::string text_;
  int count_ = 0, left_out_ = 0;
};

// What one who has waited for a while does for all.
void look_around(const Tensor& tensor, int rank, Phase phase) {
  // The last to arrive may have died before it let the others through.
  if (all_arrived(tensor, phase)) return change(tensor, phase, completed(phase));
  RankList dead;
  const auto places = places_of(tensor);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Party party = places[i].party.load(std::memory_order_acquire);
    if (party == 0 || has_arrived(places[i], phase) || !is_gone(block_of(tensor), party)) continue;
    // It may have arrived after the look above and ended after that; now nothing changes any more.
    if (!has_arrived(places[i], phase)) dead.add(i, pid_of(party));
  }
  if (dead.empty()) return;
  break_in(tensor, rank, phase, Cause::death,
           concat(dead.text(), dead.have(), " ended without arriving"));
}

void give_up(const Tensor& tensor, int rank, Phase phase) {
  RankList missing;
  const auto places = places_of(tensor);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!has_arrived(places[i], phase))
      missing.add(i, pid_of(places[i].party.load(std::memory_order_relaxed)));
  }
  if (missing.empty()) return change(tensor, phase, completed(phase));
  break_in(tensor, rank, phase, Cause::deadline,
           concat(missing.text(), missing.have(), " not arrived when the deadline of rank ", rank,
                  " passed"));
}

Place& joined(const Tensor& tensor, int rank, std::string_view call) {
  Place& place = place_of(tensor, rank, call);
  const Party self = this_party(block_of(tensor));
  for (Party owner = place.party.load(std::memory_order_acquire); owner != self;) {
    check(owner == 0 || is_gone(block_of(tensor), owner), ErrorKind::invalid_argument, call,
          "rank ", rank, " is process ", pid_of(owner), ", which lives; this is process ",
          pid_of(self));
    if (!place.party.compare_exchange_strong(owner, self, std::memory_order_acq_rel)) continue;
    // If a dead one had arrived, its heir does so again.
    if (owner != 0) place.arrived.store(0, std::memory_order_seq_cst);
    break;
  }
  return place;
}

}  // namespace

Barrier::Barrier(int world_size, SharingStrategy strategy) {
  check(world_size >= 1 && world_size <= kMaxWorldSize, ErrorKind::invalid_argument, "Barrier",
        "a world of ", world_size, "; it takes from 1 to ", kMaxWorldSize);
  const auto count = static_cast<std::size_t>(world_size);
  tensor_ = make_words(kKind, sizeof(Words) + count * sizeof(Place), strategy);
  words_of(tensor_).world_size = static_cast<std::uint32_t>(world_size);
  words_of(tensor_).phase.store(1, std::memory_order_relaxed);
}

Barrier::Barrier(const Tensor& tensor) : tensor_(tensor) {
  open_words(kKind, tensor, sizeof(Words) + sizeof(Place));
  const std::size_t count = words_of(tensor).world_size;
  check(count >= 1 && count <= kMaxWorldSize &&
            tensor.nbytes() == sizeof(Words) + count * sizeof(Place),
        ErrorKind::malformed, "Barrier", "a world of ", count, " does not fit its ",
        tensor.nbytes(), " bytes");
}

void Barrier::join(int rank) { (void)joined(tensor_, rank, "Barrier::join"); }

void Barrier::wait(int rank, Deadline deadline) {
  Place& mine = joined(tensor_, rank, "Barrier::wait");
  Words& w = words_of(tensor_);
  const Phase phase = w.phase.load(std::memory_order_acquire);
  if (shoal::is_broken(phase)) throw_broken(tensor_);
  // Release: who sees this arrival also sees what this rank wrote before. Seq_cst: see above.
  check(mine.arrived.exchange(phase, std::memory_order_seq_cst) != phase,
        ErrorKind::invalid_argument, "Barrier::wait", "rank ", rank, " waits already");
  if (all_arrived(tensor_, phase)) change(tensor_, phase, completed(phase));

  const auto is_over = [&] { return w.phase.load(std::memory_order_acquire) != phase; };
  if (!spin_until(world_size(), is_over)) {
    Deadline look = in_ms(kLookMs);
    for (;;) {
      const std::uint32_t bell = w.bell.load(std::memory_order_acquire);
      if (is_over()) break;
      if (look.expired()) {
        look_around(tensor_, rank, phase);
        look = in_ms(kLookMs);
      } else if (deadline.expired()) {
        give_up(tensor_, rank, phase);
      } else {
        sleep_on(w.bell, bell, w.sleepers, earlier(deadline, look));
      }
    }
  }
  // Acquire: what the others wrote before they arrived.
  const Phase now = w.phase.load(std::memory_order_acquire);
  if (((now ^ phase) & kSuccessesMask) == 0) throw_broken(tensor_);
}

void Barrier::poison(int rank, std::string_view reason) {
  (void)place_of(tensor_, rank, "Barrier::poison");
  const Words& w = words_of(tensor_);
  for (;;) {
    const Phase phase = w.phase.load(std::memory_order_acquire);
    if (shoal::is_broken(phase)) return;
    break_in(tensor_, rank, phase, Cause::poison, concat("rank ", rank, " failed: ", reason));
  }
}

void Barrier::reset() {
  const Phase phase = words_of(tensor_).phase.load(std::memory_order_acquire);
  if (!shoal::is_broken(phase)) return;
  for (Place& place : places_of(tensor_)) {
    Party party = place.party.load(std::memory_order_acquire);
    // Unless an heir has come in the meantime.
    if (party != 0 && is_gone(block_of(tensor_), party))
      place.party.compare_exchange_strong(party, 0, std::memory_order_acq_rel);
  }
  change(tensor_, phase, whole_again(phase));
}

bool Barrier::is_broken() const {
  return shoal::is_broken(words_of(tensor_).phase.load(std::memory_order_acquire));
}

int Barrier::arrived() const {
  const Phase phase = words_of(tensor_).phase.load(std::memory_order_acquire);
  return static_cast<int>(std::ranges::count_if(
      places_of(tensor_), [&](const Place& place) { return has_arrived(place, phase); }));
}

int Barrier::world_size() const { return static_cast<int>(places_of(tensor_).size()); }

}  // namespace shoal
