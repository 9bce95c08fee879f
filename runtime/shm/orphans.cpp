#include "shoal/runtime/shm/orphans.h"

#include <sys/stat.h>
#include <unistd.h>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/shm_directory.h"
#include "shoal/runtime/shm/slot_lock.h"

namespace shoal {
namespace {

// Reads rather than maps: the file may be truncated under us.
bool is_segment_of_ours(const Fd& file) {
  struct stat about {};
  SegmentHeader header{};
  return ::fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) &&
         about.st_uid == ::geteuid() &&
         ::pread(file.get(), &header, sizeof header, 0) == sizeof header &&
         find_fault(header, static_cast<std::uint64_t>(about.st_size)).empty();
}

}  // namespace

std::size_t reap_orphans() {
  std::size_t removed = 0;
  for (const std::string& name :
       shm_directory::list(concat(shm_directory::name_prefix(), "segment-"))) {
    const Fd file = shm_directory::open(name);
    // With all slots locked nobody can come to hold it until the name is gone.
    if (!file || !is_segment_of_ours(file) || !try_lock_all_slots(file.get())) continue;
    shm_directory::unlink(name);
    ++removed;
  }
  return removed;
}

}  // namespace shoal
