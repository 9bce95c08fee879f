#include "shoal/runtime/shm/sharing_strategy.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

constexpr std::array kAll{SharingStrategy::file_descriptor, SharingStrategy::file_system};

constexpr int kUnset = -1;

// Relaxed: the value stands alone and orders nothing else.
std::atomic<int> current{kUnset};

std::optional<SharingStrategy> find(std::string_view name) {
  for (const SharingStrategy strategy : kAll)
    if (name == to_string(strategy)) return strategy;
  return std::nullopt;
}

[[noreturn]] void throw_unknown(std::string_view what, std::string_view name) {
  throw Error({.kind = ErrorKind::invalid_argument,
               .call = std::string(what),
               .subject = concat('\'', name, '\''),
               .reason = "unknown",
               .remedy = "Choose file_descriptor or file_system"});
}

SharingStrategy initial() {
  const char* value = std::getenv("SHOAL_SHARING_STRATEGY");
  if (value == nullptr || *value == '\0') return SharingStrategy::file_descriptor;
  const auto strategy = find(value);
  if (!strategy) throw_unknown("environment variable SHOAL_SHARING_STRATEGY", value);
  return *strategy;
}

}  // namespace

std::string_view to_string(SharingStrategy strategy) {
  return strategy == SharingStrategy::file_descriptor ? "file_descriptor" : "file_system";
}

SharingStrategy parse_sharing_strategy(std::string_view name) {
  const auto strategy = find(name);
  if (!strategy) throw_unknown("sharing strategy", name);
  return *strategy;
}

std::span<const SharingStrategy> get_all_sharing_strategies() { return kAll; }

SharingStrategy get_sharing_strategy() {
  int strategy = current.load(std::memory_order_relaxed);
  if (strategy == kUnset) {
    // Whoever set it in between has the last word: a failed exchange loads what was set.
    const int wanted = static_cast<int>(initial());
    if (current.compare_exchange_strong(strategy, wanted, std::memory_order_relaxed))
      strategy = wanted;
  }
  return static_cast<SharingStrategy>(strategy);
}

void set_sharing_strategy(SharingStrategy strategy) {
  current.store(static_cast<int>(strategy), std::memory_order_relaxed);
}

}  // namespace shoal
