#include "shoal/runtime/shm/segment_survey.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/segment_layout.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal {
namespace {

// statx(2) counts so.
constexpr std::uint64_t kStatBlock = 512;

// What lies in the control page, read: a file that shrinks under a mapping would kill us.
struct Control {
  SegmentHeader header;
  std::array<std::uint32_t, kSlots> takers;
};

std::string read_control(const Fd& file, std::uint64_t file_size, Control& control) {
  if (::pread(file.get(), &control.header, sizeof control.header, 0) != sizeof control.header)
    return "too short for a segment";
  if (std::string fault = find_fault(control.header, file_size); !fault.empty()) return fault;
  constexpr auto kAt = static_cast<off_t>(offsetof(SegmentControl, takers));
  if (::pread(file.get(), control.takers.data(), sizeof control.takers, kAt) !=
      static_cast<ssize_t>(sizeof control.takers))
    return "too short for a segment";
  return {};
}

// False if it has gone meanwhile.
bool judge(const std::string& name, SegmentReport& report) {
  const Fd file = shm_directory::open(name);
  if (!file) {
    report.reason = errno == EACCES ? "not ours to open" : std::strerror(errno);
    return errno != ENOENT;
  }
  Control control{};
  report.reason = read_control(file, report.nbytes, control);
  if (!report.reason.empty()) return true;
  report.creator_pid = control.header.creator_pid;
  for (Slot slot = 0; slot < kPinned; ++slot) {
    const std::uint32_t pid = control.takers[slot];
    if (pid != 0) report.holders.push_back({slot, pid, slot_is_locked(file.get(), slot)});
  }
  // Asked of all at once, since one may come, or pass its hold on, between two of the questions.
  report.state = any_slot_is_locked(file.get()) ? SegmentState::live : SegmentState::orphaned;
  return true;
}

}  // namespace

std::string_view to_string(SegmentState state) {
  switch (state) {
    case SegmentState::live:
      return "live";
    case SegmentState::orphaned:
      return "orphaned";
    case SegmentState::unknown:
      return "unknown";
  }
  return "unknown";
}

std::optional<SegmentReport> survey_segment(const std::string& name) {
  const std::string path = concat(shm_directory::kPath, '/', name);
  struct statx about {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME,
              &about) != 0)
    return std::nullopt;
  SegmentReport report;
  report.name = name;
  report.owner = about.stx_uid;
  report.nbytes = about.stx_size;
  report.resident_bytes = about.stx_blocks * kStatBlock;
  report.created_s =
      (about.stx_mask & STATX_BTIME) != 0 ? about.stx_btime.tv_sec : about.stx_ctime.tv_sec;
  if (S_ISREG(about.stx_mode)) {
    if (!judge(name, report)) return std::nullopt;
  } else {
    report.reason = "not a regular file";
  }
  return report;
}

std::vector<SegmentReport> survey_segments(const std::string& prefix) {
  const std::string folder(shm_directory::kPath);
  if (::access(folder.c_str(), R_OK) != 0) throw_errno("access", folder);
  std::vector<std::string> names = shm_directory::list(concat(prefix, "segment-"));
  std::ranges::sort(names);
  std::vector<SegmentReport> reports;
  for (const std::string& name : names)
    if (auto report = survey_segment(name)) reports.push_back(*std::move(report));
  return reports;
}

ShmUse survey_shm(const std::vector<SegmentReport>& segments) {
  struct statvfs space {};
  const std::string path(shm_directory::kPath);
  if (::statvfs(path.c_str(), &space) != 0) throw_errno("statvfs", path);
  ShmUse use{.size = space.f_blocks * space.f_frsize, .free = space.f_bfree * space.f_frsize};
  for (const SegmentReport& segment : segments) use.shoal += segment.resident_bytes;
  // The two were not looked at in one instant.
  const std::uint64_t taken = use.size - std::min(use.size, use.free);
  use.others = taken - std::min(taken, use.shoal);
  return use;
}

}  // namespace shoal
