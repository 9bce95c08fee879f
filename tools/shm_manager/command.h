#pragma once

#include <CLI/CLI.hpp>
#include <functional>

// The subcommands of shm-manager. Each adds itself to `app`; what the command line asks for is left
// in `chosen`, which runs it and returns the exit code. It may throw shoal::Error.
namespace shoal::tools {

enum ExitCode {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotRunning = 3,  // no manager listens
  kLeaks = 4,       // orphaned segments were found
};

using Command = std::function<int()>;

void add_serve(CLI::App& app, Command& chosen);
void add_status(CLI::App& app, Command& chosen);
void add_reap(CLI::App& app, Command& chosen);
void add_doctor(CLI::App& app, Command& chosen);

}  // namespace shoal::tools
