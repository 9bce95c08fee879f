#include "shoal/tools/shm_manager/status_metrics.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstdint>
#include <sstream>

namespace shoal::tools {
namespace {

class Gauges {
 public:
  Gauges(prometheus::Registry& registry, const std::string& name, const std::string& help)
      : family_(prometheus::BuildGauge().Name(name).Help(help).Register(registry)) {}

  Gauges& set(const prometheus::Labels& labels, std::uint64_t value) {
    family_.Add(labels).Set(static_cast<double>(value));
    return *this;
  }

 private:
  prometheus::Family<prometheus::Gauge>& family_;
};

}  // namespace

std::string to_metrics(const Snapshot& snapshot) {
  prometheus::Registry registry;
  const Sums sums = sum_up(snapshot.segments);
  const auto by_state = [&](const char* name, const char* help, auto Sum::*value) {
    Gauges(registry, name, help)
        .set({{"state", "live"}}, sums.live.*value)
        .set({{"state", "orphaned"}}, sums.orphaned.*value)
        .set({{"state", "unknown"}}, sums.unknown.*value);
  };
  by_state("shoal_segments", "Named segments in /dev/shm.", &Sum::segments);
  by_state("shoal_segment_bytes", "Their sizes, summed up.", &Sum::nbytes);
  by_state("shoal_segment_resident_bytes", "What of it takes memory.", &Sum::resident_bytes);
  Gauges(registry, "shoal_shm_bytes", "/dev/shm, by who uses it.")
      .set({{"by", "shoal"}}, snapshot.shm.shoal)
      .set({{"by", "others"}}, snapshot.shm.others)
      .set({{"by", "free"}}, snapshot.shm.free);
  Gauges(registry, "shoal_manager_up", "Whether a manager listens and answers.")
      .set({}, snapshot.manager.state == ManagerView::State::listening ? 1 : 0);
  Gauges(registry, "shoal_manager_clients", "Connections to the manager; 0 without one.")
      .set({}, snapshot.manager.clients.size());
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, registry.Collect());
  return std::move(out).str();
}

}  // namespace shoal::tools
