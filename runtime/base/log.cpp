#include "shoal/runtime/base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

struct Installed {
  LogCallback callback;
  const Installed* before;
};

// A list that only grows, and no lock: a child that is forked while another thread logs would find
// a lock taken for ever.
std::atomic<const Installed*> current{nullptr};

void write_to_standard_error(LogLevel level, std::string_view message) {
  if (level == LogLevel::info) return;
  // One call, so that the lines of several processes do not mix.
  const std::string line = concat("shoal: ", to_string(level), ": ", message, '\n');
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // There is nobody to tell.
}

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "unknown";
}

void set_log_callback(LogCallback callback) {
  auto* next = new Installed{std::move(callback), current.load(std::memory_order_relaxed)};
  // Release: whoever sees the callback also sees what it captured.
  while (!current.compare_exchange_weak(next->before, next, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void log_message(LogLevel level, std::string_view message) noexcept {
  try {
    const Installed* installed = current.load(std::memory_order_acquire);
    if (installed != nullptr && installed->callback) {
      installed->callback(level, message);
    } else {
      write_to_standard_error(level, message);
    }
  } catch (...) {
    // Callers include destructors, and none of them wants to fail because a listener did.
  }
}

}  // namespace shoal
