#include "shoal/tools/shm_manager/segment_order.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {
namespace {

// The segment with the larger number comes first.
using Rank = std::int64_t (*)(const SegmentReport&);

std::int64_t rank_of(SegmentState state) {
  return state == SegmentState::orphaned ? 2 : state == SegmentState::unknown ? 1 : 0;
}

const std::vector<std::pair<std::string, Rank>>& ranks() {
  using Report = const SegmentReport&;
  static const std::vector<std::pair<std::string, Rank>> all{
      {"name", [](Report) { return std::int64_t{0}; }},
      {"bytes", [](Report report) { return static_cast<std::int64_t>(report.nbytes); }},
      {"resident", [](Report report) { return static_cast<std::int64_t>(report.resident_bytes); }},
      {"age", [](Report report) { return -report.created_s; }},
      {"holders", [](Report r) { return static_cast<std::int64_t>(living_holders(r).size()); }},
      {"state", [](Report report) { return rank_of(report.state); }},
  };
  return all;
}

}  // namespace

std::vector<std::string> segment_order_keys() {
  std::vector<std::string> keys;
  for (const auto& [key, rank] : ranks()) keys.push_back(key);
  return keys;
}

void sort_segments(std::vector<SegmentReport>& segments, const std::string& key, bool reverse) {
  const auto found = std::ranges::find(ranks(), key, &std::pair<std::string, Rank>::first);
  check(found != ranks().end(), ErrorKind::invalid_argument, "sort_segments", "no key \"", key,
        '"');
  std::ranges::sort(segments, {}, &SegmentReport::name);
  std::ranges::stable_sort(segments, std::greater(), found->second);
  if (reverse) std::ranges::reverse(segments);
}

}  // namespace shoal::tools
