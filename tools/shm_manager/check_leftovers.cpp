#include <algorithm>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/tools/shm_manager/checkup.h"
#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {
namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMost) text += ", ...";
  return text;
}

}  // namespace

Findings check_leftovers(const std::vector<SegmentReport>& segments,
                         const std::vector<SegmentReport>& others) {
  std::vector<std::string> orphaned, unknown;
  for (const SegmentReport& segment : segments)
    if (segment.state == SegmentState::orphaned) orphaned.push_back(segment.name);
  for (const auto* reports : {&segments, &others})
    for (const SegmentReport& report : *reports)
      if (report.state == SegmentState::unknown)
        unknown.push_back(concat(report.name, " (", report.reason, ")"));

  Findings findings;
  if (orphaned.empty()) {
    findings.push_back({Level::ok, "leftovers", "No segment is left of dead processes", {}});
  } else {
    findings.push_back(
        {Level::warning, "leftovers",
         concat(orphaned.size(), " segments are left of dead processes, ",
                ByteCount{sum_up(segments).orphaned.resident_bytes}, ": ", listed(orphaned)),
         "shm-manager reap"});
  }
  if (!unknown.empty())
    findings.push_back({Level::note, "unknown_files",
                        concat(unknown.size(),
                               " files have Shoal's prefix but are no segments that can be judged "
                               "from here: ",
                               listed(unknown)),
                        "They stay. If nobody needs them, remove them by hand; if they are another "
                        "user's, ask as root"});
  return findings;
}

}  // namespace shoal::tools
