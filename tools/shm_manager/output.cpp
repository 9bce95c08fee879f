#include "shoal/tools/shm_manager/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"

namespace shoal::tools {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

bool print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return false;
    } else if (errno == EAGAIN) {
      // Whoever gave it to us has made it non-blocking.
      (void)wait_ready(STDOUT_FILENO, POLLOUT, kForever);
    } else if (errno != EINTR) {
      throw_errno("write", "standard output");
    }
  }
  return true;
}

bool prints_to_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

bool is_colored(Color color) {
  if (color != Color::automatic) return color == Color::always;
  return prints_to_terminal() && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

}  // namespace shoal::tools
