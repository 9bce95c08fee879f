#include "shoal/runtime/shm/sharing_strategy.h"

#include <array>
#include <atomic>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

constexpr std::array kAll{SharingStrategy::file_descriptor, SharingStrategy::file_system};

// Relaxed: the value stands alone and orders nothing else.
std::atomic<SharingStrategy> current{SharingStrategy::file_descriptor};

}  // namespace

std::string_view to_string(SharingStrategy strategy) {
  return strategy == SharingStrategy::file_descriptor ? "file_descriptor" : "file_system";
}

SharingStrategy parse_sharing_strategy(std::string_view name) {
  for (const SharingStrategy strategy : kAll)
    if (name == to_string(strategy)) return strategy;
  throw Error({.kind = ErrorKind::invalid_argument,
               .call = "sharing strategy",
               .subject = concat('\'', name, '\''),
               .reason = "unknown",
               .remedy = "Choose file_descriptor or file_system"});
}

std::span<const SharingStrategy> get_all_sharing_strategies() { return kAll; }

SharingStrategy get_sharing_strategy() { return current.load(std::memory_order_relaxed); }

void set_sharing_strategy(SharingStrategy strategy) {
  current.store(strategy, std::memory_order_relaxed);
}

}  // namespace shoal
