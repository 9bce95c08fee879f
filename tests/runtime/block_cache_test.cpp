#include "shoal/runtime/base/block_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace shoal {
namespace {

// Sizes around all the borders of classes.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all{0, 1};
  for (std::size_t power = 64; power <= (std::size_t{128} << 20); power *= 2)
    for (const std::size_t part : {power, power + power / 4, power + power / 2})
      for (const int off : {-1, 0, 1}) all.push_back(part + static_cast<std::size_t>(off));
  return all;
}

TEST(BlockCache, GivesAlignedBlocksOfEverySize) {
  for (const std::size_t nbytes : sizes()) {
    auto* block = static_cast<unsigned char*>(cache_allocate(nbytes));
    ASSERT_NE(block, nullptr) << nbytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << nbytes;
    if (nbytes > 0) block[0] = block[nbytes - 1] = 1;
    cache_deallocate(block, nbytes);
    // The next of the same size, be it the same block or not, may be written from end to end.
    auto* next = static_cast<unsigned char*>(cache_allocate(nbytes));
    ASSERT_NE(next, nullptr) << nbytes;
    if (nbytes < (1U << 20)) std::memset(next, 2, nbytes);
    cache_deallocate(next, nbytes);
  }
}

TEST(BlockCache, KeepsBlocksApart) {
  std::vector<unsigned char*> blocks;
  for (int i = 0; i < 100; ++i) {
    blocks.push_back(static_cast<unsigned char*>(cache_allocate(100)));
    std::memset(blocks.back(), i, 100);
  }
  for (int i = 0; i < 100; ++i)
    for (int j = 0; j < 100; ++j) ASSERT_EQ(blocks[static_cast<std::size_t>(i)][j], i);
  for (unsigned char* block : blocks) cache_deallocate(block, 100);
  release_cached_memory();
}

TEST(BlockCache, TakesBlocksOfOtherThreadsAndAfterTheirEnd) {
  void* block = nullptr;
  std::thread([&] { block = cache_allocate(1000); }).join();
  std::thread([&] { cache_deallocate(block, 1000); }).join();
  struct Late {
    void* held = cache_allocate(5000);
    ~Late() { cache_deallocate(held, 5000); }
  };
  std::thread([] {
    static thread_local const Late late;  // ends after the cache, which is made later
    EXPECT_NE(late.held, nullptr);
    cache_deallocate(cache_allocate(64), 64);
  }).join();
}

TEST(BlockCache, RefusesWhatNoMemoryHas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end a program that asks for so much";
#endif
  EXPECT_EQ(cache_allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(cache_allocate(SIZE_MAX - 63), nullptr);
  EXPECT_EQ(cache_allocate(std::size_t{1} << 62), nullptr);
  EXPECT_THROW((void)CacheAllocator<int>().allocate(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_THROW((void)CacheAllocator<int>().allocate(SIZE_MAX / 2), std::bad_alloc);
}

}  // namespace
}  // namespace shoal
