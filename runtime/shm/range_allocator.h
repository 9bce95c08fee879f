#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace shoal {

// Which ranges of [0, size) are free. Best fit; neighbours that become free join.
//
// The record is this process' own: what other processes can write to must not decide where memory
// is handed out. For use by one thread at a time.
class RangeAllocator {
 public:
  explicit RangeAllocator(std::size_t size) { insert(0, size); }

  // Where the range begins. Ranges of multiples of one granule all begin at multiples of it.
  [[nodiscard]] std::optional<std::size_t> allocate(std::size_t size) {
    const auto fit = by_size_.lower_bound({size, 0});
    if (fit == by_size_.end()) return std::nullopt;
    const auto [free_size, offset] = *fit;
    erase(offset, free_size);
    if (free_size > size) insert(offset + size, free_size - size);
    return offset;
  }

  // Takes back what allocate gave.
  void release(std::size_t offset, std::size_t size) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      const std::size_t next_size = next->second;
      erase(next->first, next_size);
      size += next_size;
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [before_offset, before_size] = *std::prev(after);
      if (before_offset + before_size == offset) {
        erase(before_offset, before_size);
        offset = before_offset;
        size += before_size;
      }
    }
    insert(offset, size);
  }

  [[nodiscard]] std::size_t largest() const {
    return by_size_.empty() ? 0 : by_size_.rbegin()->first;
  }

 private:
  void insert(std::size_t offset, std::size_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void erase(std::size_t offset, std::size_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<std::size_t, std::size_t> by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;
};

}  // namespace shoal
