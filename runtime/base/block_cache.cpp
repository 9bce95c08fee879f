#include "shoal/runtime/base/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

namespace shoal {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
#else
constexpr bool kKeeps = true;
#endif

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = 2 * kHugePage;
constexpr std::size_t kMost = std::size_t{64} << 20;  // kept by a thread

// Sizes are rounded up to classes: to lines up to 1 KiB, from there on to quarters of the power of
// two below, so that at most a fifth is wasted.
constexpr std::size_t kFine = 1024;
constexpr std::size_t kFineClasses = kFine / kLine;
constexpr std::size_t kClasses = kFineClasses + 4 * 16;  // up to kMost

struct SizeClass {
  std::size_t index = 0;
  std::size_t nbytes = 0;
};

SizeClass class_of(std::size_t nbytes) {
  if (nbytes <= kFine) {
    const std::size_t lines = std::max<std::size_t>((nbytes + kLine - 1) / kLine, 1);
    return {lines - 1, lines * kLine};
  }
  const auto power = static_cast<std::size_t>(std::bit_width(nbytes - 1)) - 1;  // 2^power < nbytes
  const std::size_t below = std::size_t{1} << power, quarter = below / 4;
  const std::size_t quarters = (nbytes - below + quarter - 1) / quarter;  // 1 to 4
  return {kFineClasses + 4 * (power - 10) + quarters - 1, below + quarters * quarter};
}

struct Block {
  Block* next;
};

// Without a constructor or destructor, so that it may be used before the first and after the last
// of the thread's others.
struct Cache {
  std::array<Block*, kClasses> kept;
  std::size_t nbytes;
  bool is_open;
};
constinit thread_local Cache cache{};

// The end of the thread: nothing is kept any more.
struct Closing {
  ~Closing() {
    release_cached_memory();
    cache.is_open = false;
  }
};

bool open() {
  if (cache.is_open) return true;
  static thread_local bool was_open = false;
  if (was_open) return false;
  was_open = true;
  static thread_local const Closing closing;
  cache.is_open = true;
  return true;
}

void* from_heap(std::size_t nbytes) {
  const std::size_t alignment = nbytes < kHugeFrom ? kLine : kHugePage;
  const std::size_t padded = (nbytes + alignment - 1) / alignment * alignment;
  void* data = padded < nbytes ? nullptr : std::aligned_alloc(alignment, padded);
  // One fault for 512 pages, and as little work when they go. The rest stays in small pages, as
  // all does if no huge ones are to be had.
  if (data != nullptr && nbytes >= kHugeFrom)
    ::madvise(data, nbytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

}  // namespace

void* cache_allocate(std::size_t nbytes) noexcept {
  if (!kKeeps || nbytes > kMost) return from_heap(nbytes);
  const SizeClass size = class_of(nbytes);
  Block*& first = cache.kept[size.index];
  if (first == nullptr) return from_heap(size.nbytes);
  Block* const block = first;
  first = block->next;
  cache.nbytes -= size.nbytes;
  return block;
}

void cache_deallocate(void* block, std::size_t nbytes) noexcept {
  if (block == nullptr) return;
  const SizeClass size = kKeeps && nbytes <= kMost ? class_of(nbytes) : SizeClass{0, kMost + 1};
  if (cache.nbytes + size.nbytes > kMost || !open()) {
    std::free(block);
    return;
  }
  cache.kept[size.index] = new (block) Block{cache.kept[size.index]};
  cache.nbytes += size.nbytes;
}

void release_cached_memory() noexcept {
  for (Block*& first : cache.kept) {
    while (first != nullptr) {
      Block* const block = first;
      first = block->next;
      std::free(block);
    }
  }
  cache.nbytes = 0;
}

}  // namespace shoal
