#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/tools/shm_manager/command.h"
#include "shoal/tools/shm_manager/json_line.h"
#include "shoal/tools/shm_manager/output.h"
#include "shoal/tools/shm_manager/prefix_option.h"
#include "shoal/tools/shm_manager/printable.h"
#include "shoal/tools/shm_manager/reaping.h"

namespace shoal::tools {
namespace {

struct ReapOptions {
  std::string prefix{};
  bool dry_run = false, json = false;
};

using Fates = std::vector<Reaped>;

std::size_t count(const Fates& all, Fate fate) {
  return static_cast<std::size_t>(std::ranges::count(all, fate, &Reaped::fate));
}

std::uint64_t bytes(const Fates& all, Fate fate) {
  std::uint64_t sum = 0;
  for (const Reaped& reaped : all) sum += reaped.fate == fate ? reaped.resident_bytes : 0;
  return sum;
}

// What lives is only counted: there may be much of it, and nothing is wrong with it.
std::string to_text(const Fates& all, bool dry_run) {
  std::string text;
  for (const Reaped& reaped : all) {
    const std::string name = printable(reaped.name), reason = printable(reaped.reason);
    switch (reaped.fate) {
      case Fate::removed:
      case Fate::would_remove:
        text += concat(dry_run ? "would remove " : "removed ", name, ", ",
                       ByteCount{reaped.resident_bytes}, ", made by process ", reaped.creator_pid,
                       '\n');
        break;
      case Fate::failed:
        text += concat("could not remove ", name, ": ", reason, '\n');
        break;
      case Fate::foreign:
      case Fate::unknown:
        text += concat("left ", name, ": ", to_string(reaped.fate), ", ", reason, '\n');
        break;
      case Fate::live:
      case Fate::gone:
        break;
    }
  }
  const Fate done = dry_run ? Fate::would_remove : Fate::removed;
  return concat(text, dry_run ? "Orphaned: " : "Removed: ", count(all, done), ", ",
                ByteCount{bytes(all, done)}, ". Left: ", count(all, Fate::live), " live, ",
                count(all, Fate::foreign), " foreign, ", count(all, Fate::unknown), " unknown, ",
                count(all, Fate::failed), " that could not be removed.\n");
}

std::string to_json(const Fates& all, const std::string& prefix, bool dry_run) {
  nlohmann::ordered_json json{{"prefix", prefix}, {"dry_run", dry_run}};
  json["segments"] = nlohmann::ordered_json::array();
  for (const Reaped& reaped : all)
    json["segments"].push_back({{"name", reaped.name},
                                {"outcome", to_string(reaped.fate)},
                                {"reason", text_or_null(reaped.reason)},
                                {"bytes", reaped.nbytes},
                                {"resident_bytes", reaped.resident_bytes},
                                {"creator_pid", reaped.creator_pid}});
  nlohmann::ordered_json& totals = json["totals"];
  for (const Fate fate : {Fate::removed, Fate::would_remove, Fate::failed, Fate::live,
                          Fate::foreign, Fate::unknown, Fate::gone})
    totals[std::string(to_string(fate))] = count(all, fate);
  totals["removed_bytes"] = bytes(all, Fate::removed);
  return json_line(json);
}

int run(const ReapOptions& options) {
  const std::string prefix = resolve_prefix(options.prefix);
  const Fates all = reap_segments(prefix, options.dry_run);
  (void)print(options.json ? to_json(all, prefix, options.dry_run) : to_text(all, options.dry_run));
  if (count(all, Fate::failed) > 0) return kFailed;
  return count(all, Fate::would_remove) > 0 ? kLeaks : kOk;
}

}  // namespace

void add_reap(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<ReapOptions>();
  CLI::App& reap = *app.add_subcommand(
      "reap",
      "Removes named segments that no living process holds; keeps what it cannot judge.\n"
      "Exit codes: 0 done, 1 something orphaned could not be removed, 2 wrong arguments, 4 there "
      "is something to remove (--dry-run).");
  add_prefix_option(reap, options->prefix);
  reap.add_flag("--dry-run", options->dry_run, "Only say what would be removed");
  reap.add_flag("--json", options->json, "A line of JSON");
  reap.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace shoal::tools
