#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "shoal/runtime/base/error.h"
#include "shoal/tools/shm_manager/command.h"
#include "shoal/tools/shm_manager/output.h"
#include "shoal/tools/shm_manager/prefix_option.h"
#include "shoal/tools/shm_manager/segment_order.h"
#include "shoal/tools/shm_manager/snapshot.h"
#include "shoal/tools/shm_manager/status_json.h"
#include "shoal/tools/shm_manager/status_metrics.h"
#include "shoal/tools/shm_manager/status_text.h"
#include "shoal/tools/shm_manager/watch.h"

namespace shoal::tools {
namespace {

constexpr double kShortestWatchS = 0.1, kLongestWatchS = 86400;

struct StatusOptions {
  std::string prefix{};
  std::string sort = "name";
  bool reverse = false;
  std::string group{};
  bool json = false, prometheus = false;
  Color color = Color::automatic;
  double watch_s = 0;  // 0: once
  bool require_manager = false;
};

Snapshot look(const StatusOptions& options) {
  Snapshot snapshot = take_snapshot(resolve_prefix(options.prefix));
  sort_segments(snapshot.segments, options.sort, options.reverse);
  return snapshot;
}

std::string render(const StatusOptions& options, const Snapshot& snapshot) {
  const bool grouped = !options.group.empty();
  if (options.prometheus) return to_metrics(snapshot);
  if (options.json) return to_json(snapshot, grouped);
  return to_text(snapshot, grouped, is_colored(options.color));
}

int verdict(const StatusOptions& options, const Snapshot& snapshot) {
  const auto orphaned = [](const SegmentReport& report) {
    return report.state == SegmentState::orphaned;
  };
  if (std::ranges::any_of(snapshot.segments, orphaned)) return kLeaks;
  const bool listening = snapshot.manager.state == ManagerView::State::listening;
  return options.require_manager && !listening ? kNotRunning : kOk;
}

int run(const StatusOptions& options) {
  if (options.watch_s == 0) {
    const Snapshot snapshot = look(options);
    (void)print(render(options, snapshot));
    return verdict(options, snapshot);
  }
  const bool redraw = prints_to_terminal() && !options.json && !options.prometheus;
  bool first = true;
  watch(options.watch_s, [&] {
    std::string text = render(options, look(options));
    // To the upper left corner, with nothing left on the screen; or an empty line between.
    if (redraw) text.insert(0, "\x1b[H\x1b[2J");
    if (!redraw && !options.json && !first) text.insert(0, "\n");
    first = false;
    return print(text);
  });
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App& status = *app.add_subcommand(
      "status",
      "Shows the named segments and who holds them, the manager's clients, and /dev/shm.\n"
      "Exit codes: 0 in order, 1 failed, 2 wrong arguments, 3 no manager answers "
      "(--require-manager), 4 there are orphaned segments.");
  add_prefix_option(status, options->prefix);
  // Not CLI::Range, to which nan is within any.
  const CLI::Validator seconds(
      [](const std::string& text) {
        double value = 0;
        const bool ok = CLI::detail::lexical_cast(text, value) && value >= kShortestWatchS &&
                        value <= kLongestWatchS;
        return ok ? std::string()
                  : concat("a number from ", kShortestWatchS, " to ", kLongestWatchS);
      },
      "SECONDS");
  auto* sort = status.add_option(
      "--sort", options->sort,
      "Order of segments: name, bytes, resident, age, holders or state; numbers from the "
      "largest on");
  sort->check(CLI::IsMember(segment_order_keys()))->option_text("KEY");
  auto* reverse = status.add_flag("--reverse", options->reverse, "The other way round");
  auto* group = status.add_option("--group", options->group, "Sums by the creator's pid");
  group->check(CLI::IsMember({"pid"}))->option_text("pid")->excludes(sort)->excludes(reverse);
  auto* json = status.add_flag("--json", options->json, "A line of JSON");
  status.add_flag("--prometheus", options->prometheus, "Metrics in Prometheus' text format")
      ->excludes(json)
      ->excludes(group);
  status.add_option("--watch", options->watch_s, "Again and again, every so many seconds")
      ->check(seconds)
      ->option_text("SECONDS");
  const std::map<std::string, Color> colors{
      {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}};
  status.add_option("--color", options->color, "auto: on a terminal, without NO_COLOR")
      ->transform(CLI::CheckedTransformer(colors))
      ->option_text("auto|always|never");
  status.add_flag("--require-manager", options->require_manager,
                  "Exit code 3 if no manager answers and nothing is orphaned");
  status.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace shoal::tools
