#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace shoal::tools {

// What one client may cost the others. May change while the manager runs.
struct Limits {
  std::size_t max_clients = 4096;
  std::size_t max_names = 16384;  // that one client holds
  std::size_t max_rate = 50000;   // names a second that one client tells of; then it has to wait
  double sweep_s = 10;            // between looks at /dev/shm for segments that nobody told of
  std::string log_level = "info";
};

struct ServeOptions {
  std::string socket{};  // empty: where clients look
  std::string prefix{};  // of the names that are swept; empty: all that segments can have
  std::string config{};  // a file of limits
  Limits limits{};
  bool is_private = false;  // started by the library, for the processes of one user
  int listen_fd = -1;       // of an inherited listening socket
  double idle_exit_s = 0;   // end when there was nothing to watch for so long; 0: never
};

void add_limit_options(CLI::App& app, Limits& limits);

// What the file says instead of `limits`: one "name = value" a line, named as the options are.
// Throws Error(malformed) naming the file and what is wrong there.
[[nodiscard]] Limits read_limits(const std::string& path, Limits limits);

}  // namespace shoal::tools
