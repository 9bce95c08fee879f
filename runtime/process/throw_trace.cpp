#include "shoal/runtime/process/throw_trace.h"

#include <array>
#include <boost/stacktrace.hpp>
#include <cstddef>

namespace shoal {
namespace {

constexpr std::size_t kMostCalls = 64;

struct LastThrow {
  bool wanted = false;
  const void* exception = nullptr;
  const std::type_info* type = nullptr;
  std::size_t calls = 0;
  std::array<void*, kMostCalls> frames{};
};
constinit thread_local LastThrow last;

}  // namespace

ThrowTraces::ThrowTraces() noexcept { last.wanted = true; }
ThrowTraces::~ThrowTraces() { last.wanted = false; }

void note_throw(const void* exception, const std::type_info* type) noexcept {
  if (!last.wanted) return;
  last.exception = exception;
  last.type = type;
  // This function and the hook are not of interest.
  last.calls = boost::stacktrace::safe_dump_to(2, last.frames.data(), sizeof last.frames);
}

std::string describe_throw(const void* exception, const std::type_info& type) {
  const bool is_last = exception != nullptr && exception == last.exception &&
                       last.type != nullptr && *last.type == type;
  if (!is_last || last.calls == 0) return {};
  const auto trace =
      boost::stacktrace::stacktrace::from_dump(last.frames.data(), last.calls * sizeof(void*));
  return boost::stacktrace::to_string(trace);
}

}  // namespace shoal
