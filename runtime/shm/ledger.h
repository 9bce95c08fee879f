#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "shoal/runtime/shm/process_token.h"

namespace shoal {

// Who holds a named segment: a row per holder, its token in it; 0 is a free row.
//
// The rows lie in the segment itself, where every process that maps it changes them at any time,
// each with one compare-and-swap. Rows rather than a counter: a dead holder can be struck out, and
// giving back what is no longer there changes nothing.
//
// A message on its way holds too, by a row with its sender's token, which the receiver exchanges
// for its own. Whoever adds a row already holds one, or takes over a row from one who does; so once
// all rows are free or dead, no living process can come to hold the segment again.
class Ledger {
 public:
  using Row = std::atomic<TokenId>;
  static_assert(Row::is_always_lock_free, "rows are shared between processes");

  // How many rows were ever taken, so that a scan can tell whether it saw one moment.
  using Additions = std::atomic<std::uint64_t>;

  Ledger(std::span<Row> rows, Additions& additions) : rows_(rows), additions_(additions) {}

  // False when every row is taken.
  [[nodiscard]] bool add(TokenId token) noexcept { return exchange(0, token); }
  // Frees one row of `token`. False if there is none.
  bool remove(TokenId token) noexcept { return exchange(token, 0); }
  // One row of `from` becomes one of `to`.
  [[nodiscard]] bool exchange(TokenId from, TokenId to) noexcept {
    for (Row& row : rows_) {
      TokenId expected = from;
      // Acquire and release: whoever sees a holder gone also sees all it wrote to the segment.
      if (row.load(std::memory_order_relaxed) == from &&
          row.compare_exchange_strong(expected, to, std::memory_order_acq_rel)) {
        // Before its taker can free any other row: who sees that one free sees this count.
        if (to != 0) additions_.fetch_add(1, std::memory_order_release);
        return true;
      }
    }
    return false;
  }

  // Frees the rows of the dead. True if nobody is left. False when a row was taken meanwhile,
  // perhaps one that had been passed: its taker lives, and will scan when it lets go.
  [[nodiscard]] bool strike_dead() noexcept {
    const std::uint64_t before = additions_.load(std::memory_order_acquire);
    bool empty = true;
    for (Row& row : rows_) {
      TokenId token = row.load(std::memory_order_acquire);
      if (token == 0) continue;
      // A failed exchange means that a receiver took the row over in between: it is alive.
      if (token_is_alive(token) ||
          !row.compare_exchange_strong(token, 0, std::memory_order_acq_rel))
        empty = false;
    }
    return empty && additions_.load(std::memory_order_acquire) == before;
  }

 private:
  std::span<Row> rows_;
  Additions& additions_;
};

}  // namespace shoal
