#include "shoal/runtime/shm/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/log.h"
#include "shoal/runtime/shm/system_file.h"

namespace shoal {
namespace {

constexpr rlim_t kMost = 1'048'576;

// No lock, which a child could inherit locked: threads that come here at once set the same limit.
std::atomic<bool> done{false}, told{false};

bool switched_off() {
  const char* value = std::getenv("SHOAL_RAISE_NOFILE");
  return value != nullptr && std::string_view(value) == "0";
}

}  // namespace

DescriptorLimitChange raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("getrlimit", "RLIMIT_NOFILE");
  DescriptorLimitChange change{.was = limit.rlim_cur, .is = limit.rlim_cur, .hard = limit.rlim_max};
  if (done.load(std::memory_order_acquire) || switched_off()) return change;
  const rlim_t most =
      std::min<rlim_t>(kMost, system_file::read_number("/proc/sys/fs/nr_open").value_or(kMost));
  const rlim_t wanted = std::min(limit.rlim_max, most);
  if (wanted > limit.rlim_cur) {
    limit.rlim_cur = wanted;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) change.is = wanted;
  }
  // Release: whoever sees this also sees the limit raised.
  done.store(true, std::memory_order_release);
  if (change.is > change.was && !told.exchange(true, std::memory_order_relaxed)) {
    log_message(LogLevel::info,
                concat("raised the limit of open descriptors from ", change.was, " to ", change.is,
                       "; SHOAL_RAISE_NOFILE=0 leaves it alone"));
  }
  return change;
}

}  // namespace shoal
