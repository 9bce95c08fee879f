#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

// Memory that a thread gave back, kept for its next wish of that size: work that repeats itself, as
// a training step does, then costs no heap and no page faults.
//
// Each thread keeps at most 64 MiB, and nothing after it has ended; when that is full, it goes back
// to the system and the thread begins anew. Under AddressSanitizer nothing is kept, so that it sees
// every use after the end.
namespace shoal {

// 64-byte aligned, from 4 MiB on in huge pages where the system has them; contents undefined.
// nullptr if there is no memory.
[[nodiscard]] void* cache_allocate(std::size_t nbytes) noexcept;
// With the `nbytes` it was asked for; by any thread.
void cache_deallocate(void* block, std::size_t nbytes) noexcept;

// Gives back to the system what this thread keeps.
void release_cached_memory() noexcept;

// For the standard library's containers and allocate_shared.
template <class T>
struct CacheAllocator {
  using value_type = T;
  static constexpr std::size_t kItem = sizeof(T);  // NOLINT(bugprone-sizeof-expression)

  CacheAllocator() = default;
  template <class U>
  CacheAllocator(const CacheAllocator<U>& /*other*/) {}  // NOLINT: allocators convert

  [[nodiscard]] T* allocate(std::size_t n) {
    void* block = n > SIZE_MAX / kItem ? nullptr : cache_allocate(n * kItem);
    if (block == nullptr) throw std::bad_alloc();
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t n) noexcept { cache_deallocate(block, n * kItem); }

  friend bool operator==(const CacheAllocator&, const CacheAllocator&) { return true; }
};

// A base for classes whose objects come from the cache.
struct Cached {
  static void* operator new(std::size_t nbytes) {
    void* block = cache_allocate(nbytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  static void operator delete(void* block, std::size_t nbytes) noexcept {
    cache_deallocate(block, nbytes);
  }
};

}  // namespace shoal
