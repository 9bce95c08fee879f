#include "shoal/tools/shm_manager/serve_options.h"

#include "shoal/runtime/base/error.h"

namespace shoal::tools {

void add_limit_options(CLI::App& app, Limits& limits) {
  app.add_option("--max-clients", limits.max_clients, "Most clients at a time")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--max-names", limits.max_names, "Most names that one client holds")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--max-rate", limits.max_rate,
                 "Most names a second that one client tells of; then it has to wait")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--sweep", limits.sweep_s,
                 "Seconds between looks for segments that no client told of")
      ->check(CLI::Range(0.01, 86'400.0));
  app.add_option("--log-level", limits.log_level, "What is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
}

Limits read_limits(const std::string& path, Limits limits) {
  CLI::App file("limits");
  add_limit_options(file, limits);
  file.set_config("--config", path, "", true);
  file.allow_config_extras(CLI::config_extras_mode::error);
  try {
    file.parse(std::vector<std::string>{});
  } catch (const CLI::ParseError& error) {
    throw Error(
        {.kind = ErrorKind::malformed,
         .call = "--config",
         .subject = path,
         .reason = error.what(),
         .remedy = "Each line says \"name = value\"; shm-manager serve --help has the names"});
  }
  return limits;
}

}  // namespace shoal::tools
