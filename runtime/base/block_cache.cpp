#include "shoal/runtime/base/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace shoal {
namespace {

// GCC's way to say so, and clang's.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool kKeeps = false;
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

// The other way round.
std::size_t nbytes_of(std::size_t index) {
  if (index < kFineClasses) return (index + 1) * kLine;
  const std::size_t power = 10 + (index - kFineClasses) / 4;
  const std::size_t quarters = (index - kFineClasses) % 4 + 1;
  return (std::size_t{1} << power) / 4 * (4 + quarters);
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

std::size_t rounded_up(std::size_t nbytes, std::size_t unit) {
  return (nbytes + unit - 1) / unit * unit;
}

// Large blocks are mappings of their own: the heap would cut them out of what it has, with gaps as
// large as their alignment, and keep what they were.
bool is_mapped(std::size_t nbytes) { return kKeeps && nbytes >= kHugeFrom; }

void* map(std::size_t nbytes) {
  const std::size_t wanted = rounded_up(nbytes, kHugePage), reserved = wanted + kHugePage;
  if (wanted < nbytes || reserved < wanted) return nullptr;
  void* mapped =
      ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  // Of what was mapped, the part from the first border of huge pages on.
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t before = rounded_up(reinterpret_cast<std::uintptr_t>(start), kHugePage) -
                             reinterpret_cast<std::uintptr_t>(start);
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + wanted, kHugePage - before);
  // One fault for 512 pages, and as little work when they go. The rest stays in small pages, as
  // all does if no huge ones are to be had.
  ::madvise(start + before, wanted, MADV_HUGEPAGE);
  return start + before;
}

// `nbytes` is what both are told.
void* from_system(std::size_t nbytes) {
  if (is_mapped(nbytes)) return map(nbytes);
  if (nbytes > PTRDIFF_MAX) return nullptr;
  return std::aligned_alloc(kLine, rounded_up(nbytes, kLine));
}

void to_system(void* block, std::size_t nbytes) {
  if (is_mapped(nbytes)) {
    ::munmap(block, rounded_up(nbytes, kHugePage));
  } else {
    std::free(block);
  }
}

}  // namespace

void* cache_allocate(std::size_t nbytes) noexcept {
  const bool fits = kKeeps && nbytes <= kMost;
  const SizeClass size = fits ? class_of(nbytes) : SizeClass{0, nbytes};
  if (fits && cache.kept[size.index] != nullptr) {
    Block* const block = cache.kept[size.index];
    cache.kept[size.index] = block->next;
    cache.nbytes -= size.nbytes;
    return block;
  }
  static_cast<void>(open());  // so that the thread's end finds it open, whoever frees then
  void* block = from_system(size.nbytes);
  if (block != nullptr || cache.nbytes == 0) return block;
  release_cached_memory();
  return from_system(size.nbytes);
}

void cache_deallocate(void* block, std::size_t nbytes) noexcept {
  if (block == nullptr) return;
  const bool fits = kKeeps && nbytes <= kMost;
  const SizeClass size = fits ? class_of(nbytes) : SizeClass{0, nbytes};
  if (!fits || !open()) {
    to_system(block, size.nbytes);
    return;
  }
  // Full of what is no longer asked for, perhaps: it begins anew.
  if (cache.nbytes + size.nbytes > kMost) release_cached_memory();
  cache.kept[size.index] = new (block) Block{cache.kept[size.index]};
  cache.nbytes += size.nbytes;
}

void release_cached_memory() noexcept {
  for (std::size_t index = 0; index < kClasses; ++index) {
    while (cache.kept[index] != nullptr) {
      Block* const block = cache.kept[index];
      cache.kept[index] = block->next;
      to_system(block, nbytes_of(index));
    }
  }
  cache.nbytes = 0;
}

}  // namespace shoal
