#pragma once

#include <atomic>

namespace shoal {

// For what does not survive a fork, a CUDA context for one: it says so when it is first used, and
// asks in each call whether it is a child's. So that a child gets an error instead of hanging.
//
//   constinit ForkGuard guard("CUDA");
//   guard.use();      // Error(unsupported) in a child of the process that first called it
//
// For any thread; a static, and never destroyed.
class ForkGuard {
 public:
  // `what` is text that stays.
  explicit constexpr ForkGuard(const char* what) : what_(what) {}
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // Throws Error(unsupported) naming spawn and forkserver if an ancestor has used it before it
  // forked this process.
  void use();

  // What this process uses that a fork would break, for whoever is about to fork; nullptr: nothing.
  [[nodiscard]] static const char* in_use() noexcept;

 private:
  const char* what_;
  std::atomic<int> user_{0};  // the process that uses it; 0: none. Relaxed: nothing comes with it
};

}  // namespace shoal
