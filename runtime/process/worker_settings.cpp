#include "shoal/runtime/process/worker_settings.h"

#include <charconv>
#include <cstdlib>

#include "shoal/runtime/base/error.h"

namespace shoal {

WorkerSettings WorkerSettings::make(const LaunchOptions& options, int rank, int threads) {
  WorkerSettings settings{.rank = rank,
                          .world_size = options.nprocs,
                          .threads = threads,
                          .pin_cpus = options.pin_cpus,
                          .allow_children = options.allow_children,
                          .tag_output = options.tag_output,
                          .environment = options.environment};
  settings.environment["SHOAL_RANK"] = concat(rank);
  settings.environment["SHOAL_WORLD_SIZE"] = concat(options.nprocs);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  // As the user has set them; not as they were set for us, a worker ourselves.
  const std::string ours = variable("SHOAL_THREADS");
  settings.environment["SHOAL_THREADS"] = concat(threads);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const std::string value = variable(name);
    settings.environment.try_emplace(name,
                                     value.empty() || value == ours ? concat(threads) : value);
  }
  return settings;
}

std::string WorkerSettings::numbers() const {
  return concat(rank, '/', world_size, '/', threads, '/', int{pin_cpus}, '/', int{allow_children},
                '/', int{tag_output});
}

bool WorkerSettings::parse_numbers(std::string_view text, WorkerSettings& settings) {
  int pins = 0, children = 0, tags = 0;
  for (int* number :
       {&settings.rank, &settings.world_size, &settings.threads, &pins, &children, &tags}) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (failed != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (number == &tags) break;
    if (!text.starts_with('/')) return false;
    text.remove_prefix(1);
  }
  settings.pin_cpus = pins != 0;
  settings.allow_children = children != 0;
  settings.tag_output = tags != 0;
  return text.empty() && settings.rank >= 0 && settings.rank < settings.world_size &&
         settings.threads >= 1;
}

}  // namespace shoal
