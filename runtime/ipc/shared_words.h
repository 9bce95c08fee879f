#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "shoal/runtime/base/futex.h"
#include "shoal/runtime/shm/shared_block.h"
#include "shoal/runtime/tensor/tensor.h"

// What the waiting primitives have in common: words in a shared tensor that all parties see. They
// travel as that tensor. Whoever can write to it is trusted with them, once the mark is right.
namespace shoal {

// What the words begin with. Written before anybody else can see them.
struct WordsMark {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t nbytes;  // of all the words
};
static_assert(sizeof(WordsMark) == 16 && std::is_trivially_copyable_v<WordsMark>);

struct WordsKind {
  std::string_view name;  // of the class
  std::uint32_t magic;
  std::uint32_t version;
};

// Zeros in shared memory behind a mark. Throws as SegmentPool::allocate does.
[[nodiscard]] Tensor make_words(const WordsKind& kind, std::size_t nbytes,
                                SharingStrategy strategy);

// Checks that a tensor from somewhere has such words, `least` bytes or more, and shares it in place
// if it is private. Throws Error(malformed) and Error(version_mismatch).
void open_words(const WordsKind& kind, const Tensor& tensor, std::size_t least);

// Sleeps until `word` is woken, while it contains `expected`, for at most the time after which a
// waiter should see for itself how the others are. Counts itself among the `sleepers`, so that
// ring() makes a system call only for somebody; too many after one was killed, which costs only
// that.
void sleep_on(const FutexWord& word, std::uint32_t expected, FutexWord& sleepers,
              Deadline deadline);
void ring(const FutexWord& word, const FutexWord& sleepers) noexcept;

// How long a waiter sleeps before it looks around.
inline constexpr double kLookMs = 20;

// A short text. Its characters are atomic, so that one who reads it while another writes gets a
// wrong text at worst; who is told of it afterwards gets the right one.
class SharedText {
 public:
  static constexpr std::size_t kMaxBytes = 224;
  // Cut off at kMaxBytes.
  void write(std::string_view text) noexcept;
  [[nodiscard]] std::string read() const;

 private:
  std::atomic<std::uint32_t> nbytes_;
  std::array<std::atomic<char>, kMaxBytes> chars_;
};
static_assert(sizeof(SharedText) == 228 && std::is_standard_layout_v<SharedText>);

// A process that takes part: packed into a word, never 0. One of them however many threads it has.
using Party = std::uint64_t;

// This process. The block's slot is asked for every time, since a forked child has another.
[[nodiscard]] Party this_party(const SharedBlock& block);
// Whether it has ended, or given up its part in the block's segment. In doubt not.
[[nodiscard]] bool is_gone(const SharedBlock& block, Party party);
[[nodiscard]] constexpr std::uint32_t pid_of(Party party) {
  return static_cast<std::uint32_t>(party >> 32);
}

}  // namespace shoal
