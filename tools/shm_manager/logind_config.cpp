#include "shoal/tools/shm_manager/logind_config.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal::tools {
namespace {

namespace fs = std::filesystem;

// The one that hides the others first.
constexpr const char* kFolders[] = {"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd",
                                    "/usr/lib/systemd", "/lib/systemd"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto start = text.find_first_not_of(kBlanks);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlanks) - start + 1);
}

// Of one file; the last assignment counts.
std::optional<std::string> find_value(std::string_view text, std::string_view key) {
  std::optional<std::string> value;
  bool in_section = false;
  while (!text.empty()) {
    const std::string_view line = trimmed(system_file::take_line(text));
    if (line.starts_with('[')) in_section = line == "[Login]";
    const auto equals = line.find('=');
    if (!in_section || equals == std::string_view::npos) continue;
    if (trimmed(line.substr(0, equals)) == key) value = trimmed(line.substr(equals + 1));
  }
  return value;
}

// In the order in which they are read.
std::vector<std::string> find_files(const std::string& root) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const char* folder : kFolders) {
    const std::string path = std::string(folder) + "/logind.conf";
    if (!fs::exists(root + path, failed)) continue;
    files.push_back(path);
    break;
  }
  std::map<std::string, std::string> drop_ins;
  for (const char* folder : kFolders) {
    const std::string path = std::string(folder) + "/logind.conf.d";
    for (fs::directory_iterator entry(root + path, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      const std::string name = entry->path().filename().string();
      if (name.ends_with(".conf")) drop_ins.emplace(name, concat(path, '/', name));
    }
  }
  for (const auto& [name, path] : drop_ins) files.push_back(path);
  return files;
}

}  // namespace

std::optional<LogindSetting> read_logind_setting(std::string_view key, const std::string& root) {
  std::optional<LogindSetting> setting;
  for (const std::string& file : find_files(root)) {
    const auto text = system_file::read(root + file);
    if (!text) continue;
    if (const auto value = find_value(*text, key)) setting = LogindSetting{*value, file};
  }
  return setting;
}

}  // namespace shoal::tools
