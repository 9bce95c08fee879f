#include "shoal/tools/shm_manager/prefix_option.h"

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal::tools {

void add_prefix_option(CLI::App& app, std::string& prefix) {
  const auto check_prefix = [](const std::string& text) {
    if (shm_directory::is_name_prefix(text)) return std::string();
    return concat("a prefix has 1 to ", shm_directory::kMostPrefix,
                  " letters, digits, '.', '_' and '-', no '.' in front");
  };
  app.add_option("--prefix", prefix,
                 "What the segments' names start with; without it $SHOAL_NAME_PREFIX, or shoal-")
      ->check(CLI::Validator(check_prefix, "PREFIX"))
      ->option_text("PREFIX");
}

std::string resolve_prefix(const std::string& given) {
  return given.empty() ? shm_directory::name_prefix() : given;
}

}  // namespace shoal::tools
