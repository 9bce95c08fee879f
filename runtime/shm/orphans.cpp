#include "shoal/runtime/shm/orphans.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {
namespace {

// Reads rather than maps: the file may be truncated under us.
bool is_segment(const Fd& file, const struct stat& about) {
  SegmentHeader header{};
  return S_ISREG(about.st_mode) &&
         ::pread(file.get(), &header, sizeof header, 0) == sizeof header &&
         find_fault(header, static_cast<std::uint64_t>(about.st_size)).empty();
}

ReapOutcome reap(const std::string& name) {
  const Fd file = shm_directory::open(name);
  if (!file) {
    if (errno == ENOENT) return ReapOutcome::gone;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) return ReapOutcome::failed;
    return errno == EACCES ? ReapOutcome::foreign : ReapOutcome::unknown;
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return ReapOutcome::failed;
  if (const uid_t self = ::geteuid(); about.st_uid != self && self != 0)
    return ReapOutcome::foreign;
  if (!is_segment(file, about)) return ReapOutcome::unknown;
  // With all slots locked nobody can come to hold it until the name is gone.
  if (!try_lock_all_slots(file.get())) return ReapOutcome::live;
  return shm_directory::unlink(name) ? ReapOutcome::removed : ReapOutcome::foreign;
}

}  // namespace

std::string_view to_string(ReapOutcome outcome) {
  switch (outcome) {
    case ReapOutcome::removed:
      return "removed";
    case ReapOutcome::live:
      return "live";
    case ReapOutcome::foreign:
      return "foreign";
    case ReapOutcome::unknown:
      return "unknown";
    case ReapOutcome::gone:
      return "gone";
    case ReapOutcome::failed:
      return "failed";
  }
  return "unknown";
}

ReapOutcome reap_segment(const std::string& name) noexcept {
  try {
    return reap(name);
  } catch (const std::exception&) {
    return ReapOutcome::failed;  // out of memory
  }
}

std::size_t reap_orphans() {
  std::size_t removed = 0;
  for (const std::string& name :
       shm_directory::list(concat(shm_directory::name_prefix(), "segment-")))
    removed += reap_segment(name) == ReapOutcome::removed;
  return removed;
}

}  // namespace shoal
