#include "shoal/runtime/base/thread_id.h"

#include <pthread.h>
#include <unistd.h>

namespace shoal {
namespace {

thread_local ThreadId t_self;

}  // namespace

ThreadId this_thread() noexcept {
  // The thread that forks is the only one in the child, and has inherited what it knew.
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { t_self = {}; });
  if (t_self.pid == 0)
    t_self = {.pid = static_cast<std::uint32_t>(::getpid()),
              .tid = static_cast<std::uint32_t>(::gettid())};
  return t_self;
}

}  // namespace shoal
