#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "shoal/tools/shm_manager/checkup.h"
#include "shoal/tools/shm_manager/command.h"
#include "shoal/tools/shm_manager/json_line.h"
#include "shoal/tools/shm_manager/output.h"
#include "shoal/tools/shm_manager/prefix_option.h"
#include "shoal/tools/shm_manager/printable.h"
#include "shoal/tools/shm_manager/snapshot.h"
#include "shoal/tools/shm_manager/table.h"

namespace shoal::tools {
namespace {

struct DoctorOptions {
  std::string prefix{};
  bool json = false;
};

// Files that have the prefix but not the name of a segment.
std::vector<SegmentReport> survey_others(const std::string& prefix) {
  std::vector<SegmentReport> others;
  for (const std::string& name : shm_directory::list(prefix)) {
    if (name.starts_with(prefix + "segment-")) continue;
    if (auto report = survey_segment(name)) others.push_back(*std::move(report));
  }
  return others;
}

Findings examine(const std::string& prefix) {
  const Budget budget = read_budget();
  const Snapshot snapshot = take_snapshot(prefix);
  const uid_t uid = ::geteuid();
  Findings all;
  const auto take = [&all](Findings some) { std::ranges::move(some, std::back_inserter(all)); };
  take(check_shm(budget));
  take(check_cgroup(budget));
  take(check_descriptors(budget));
  take(check_mappings(budget, snapshot.segments));
  take(check_logind({uid, user_name(uid)}));
  take(check_leftovers(snapshot.segments, survey_others(prefix)));
  take(check_manager(snapshot.manager, uid));
  return all;
}

std::string to_text(const Findings& findings, bool colored) {
  std::string text;
  for (const Finding& finding : findings) {
    const Paint paint = finding.level == Level::problem   ? Paint::bad
                        : finding.level == Level::warning ? Paint::doubtful
                        : finding.level == Level::ok      ? Paint::good
                                                          : Paint::heading;
    std::string level(to_string(finding.level));
    const std::string fill(std::string_view("problem  ").size() - level.size(), ' ');
    text += painted(level, paint, colored) + fill + printable(finding.text) + '\n';
    if (!finding.remedy.empty()) text += "         -> " + printable(finding.remedy) + '\n';
  }
  return text;
}

Level worst(const Findings& findings) {
  return std::ranges::max(findings, {}, &Finding::level).level;
}

std::string to_json(const Findings& findings) {
  nlohmann::ordered_json json{{"worst", to_string(worst(findings))}};
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings)
    json["findings"].push_back({{"check", finding.check},
                                {"level", to_string(finding.level)},
                                {"text", finding.text},
                                {"remedy", text_or_null(finding.remedy)}});
  return json_line(json);
}

int verdict(const Findings& findings) {
  const auto leftovers = [](const Finding& finding) {
    return finding.check == "leftovers" && finding.level != Level::ok;
  };
  if (std::ranges::any_of(findings, leftovers)) return kLeaks;
  return worst(findings) == Level::problem ? kFailed : kOk;
}

int run(const DoctorOptions& options) {
  const Findings findings = examine(resolve_prefix(options.prefix));
  (void)print(options.json ? to_json(findings) : to_text(findings, is_colored(Color::automatic)));
  return verdict(findings);
}

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::note:
      return "note";
    case Level::warning:
      return "warning";
    case Level::problem:
      return "problem";
  }
  return "problem";
}

void add_doctor(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App& doctor = *app.add_subcommand(
      "doctor",
      "Looks for what stands in the way of named segments on this machine, and says what to do.\n"
      "Exit codes: 0 no problem, 1 a problem, 2 wrong arguments, 4 segments of dead processes.");
  add_prefix_option(doctor, options->prefix);
  doctor.add_flag("--json", options->json, "A line of JSON");
  doctor.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace shoal::tools
