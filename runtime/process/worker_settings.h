#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shoal/runtime/process/launch.h"

// Private to this folder.
namespace shoal {

// What a worker is told before it runs anything of the program's.
struct WorkerSettings {
  int rank = 0;
  int world_size = 1;
  int threads = 1;
  bool pin_cpus = false;
  bool allow_children = true;
  bool tag_output = false;
  std::map<std::string, std::string> environment{};  // all that is to be set

  // What LaunchOptions say of this rank.
  [[nodiscard]] static WorkerSettings make(const LaunchOptions& options, int rank, int threads);
  // Without the environment, which a spawned process has from the start.
  [[nodiscard]] std::string numbers() const;
  [[nodiscard]] static bool parse_numbers(std::string_view text, WorkerSettings& settings);
};

}  // namespace shoal
