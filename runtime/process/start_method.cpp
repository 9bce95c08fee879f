#include "shoal/runtime/process/start_method.h"

#include <array>
#include <atomic>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

constexpr std::array kAllMethods{StartMethod::spawn, StartMethod::fork, StartMethod::forkserver};

// Alone, so relaxed: nothing else is published with it.
std::atomic<StartMethod> chosen{StartMethod::spawn};

}  // namespace

std::string_view to_string(StartMethod method) {
  switch (method) {
    case StartMethod::spawn:
      return "spawn";
    case StartMethod::fork:
      return "fork";
    case StartMethod::forkserver:
      return "forkserver";
  }
  return "unknown";
}

StartMethod parse_start_method(std::string_view name) {
  for (const StartMethod method : kAllMethods)
    if (name == to_string(method)) return method;
  throw Error({.kind = ErrorKind::invalid_argument,
               .call = "start method",
               .subject = concat('\'', name, '\''),
               .reason = "unknown",
               .remedy = "Choose spawn, fork or forkserver"});
}

std::span<const StartMethod> get_all_start_methods() { return kAllMethods; }

StartMethod default_start_method() noexcept { return chosen.load(std::memory_order_relaxed); }

void set_default_start_method(StartMethod method) noexcept {
  chosen.store(method, std::memory_order_relaxed);
}

}  // namespace shoal
