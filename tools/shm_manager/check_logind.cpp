#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "shoal/runtime/base/error.h"
#include "shoal/tools/shm_manager/checkup.h"
#include "shoal/tools/shm_manager/logind_config.h"

namespace shoal::tools {
namespace {

// Below it are system users, whose objects logind leaves alone.
constexpr uid_t kFirstPerson = 1000;

// As systemd reads it.
bool is_no(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view kNo[] = {"0", "no", "n", "false", "f", "off"};
  return std::ranges::find(kNo, value) != std::end(kNo);
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Finding fine(std::string why) {
  return {Level::ok, "logind", "Logging out removes no segments: " + std::move(why), {}};
}

}  // namespace

Findings check_logind(const Person& person, const std::string& root) {
  if (!exists(root + "/run/systemd/system")) return {fine("systemd does not run here")};
  const auto setting = read_logind_setting("RemoveIPC", root);
  if (setting && is_no(setting->value))
    return {fine(concat("RemoveIPC=", setting->value, " in ", setting->file))};
  if (person.uid < kFirstPerson) return {fine("this is a system user")};
  if (exists(concat(root, "/var/lib/systemd/linger/", person.name)))
    return {fine("this user lingers")};
  return {{Level::warning, "logind",
           concat("At the end of the user's last session logind removes all named segments of ",
                  person.name, ", even under running programs (RemoveIPC=",
                  setting ? setting->value + " in " + setting->file : "yes, the default", ")"),
           concat("Put RemoveIPC=no into /etc/systemd/logind.conf.d/shoal.conf, section [Login], "
                  "and restart systemd-logind; or loginctl enable-linger ",
                  person.name,
                  "; or run the programs as a system user. Segments by file_descriptor are not "
                  "concerned")}};
}

}  // namespace shoal::tools
