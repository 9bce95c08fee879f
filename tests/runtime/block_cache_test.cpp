#include "shoal/runtime/base/block_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "support/in_child.h"

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

// What a thread keeps does not stand in the way of what it asks for: not under a limit of memory,
// nor when it has kept all that it may.
TEST(BlockCache, GivesUpWhatItKeepsForWhatIsWanted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map more than a limit would allow";
#endif
  EXPECT_EQ(in_child([] {
              constexpr std::size_t kMiB = std::size_t{1} << 20;
              std::vector<void*> blocks;
              for (int i = 0; i < 60; ++i) blocks.push_back(cache_allocate(kMiB));
              for (void* block : blocks) cache_deallocate(block, kMiB);
              // All that is mapped, and 8 MiB.
              std::size_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              const rlim_t most = pages * static_cast<rlim_t>(::getpagesize()) + 8 * kMiB;
              const rlimit limit{most, most};
              EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
              void* large = cache_allocate(40 * kMiB);
              EXPECT_NE(large, nullptr);
              cache_deallocate(large, 40 * kMiB);
              // Kept now, though what was kept before filled the cache.
              EXPECT_EQ(cache_allocate(40 * kMiB), large);
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
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
