#pragma once

#include <string>

#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {

// A snapshot in Prometheus' text format, as its node exporter collects it from files.
[[nodiscard]] std::string to_metrics(const Snapshot& snapshot);

}  // namespace shoal::tools
