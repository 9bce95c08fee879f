#include "shoal/runtime/shm/segment.h"
#include "shoal/runtime/shm/manager_client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/budget.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal {
namespace {

namespace bip = boost::interprocess;

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // newer than the C library's headers
#endif

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// Lends a descriptor to Boost.Interprocess, which maps anything that has this member.
struct Mappable {
  int fd;
  [[nodiscard]] bip::mapping_handle_t get_mapping_handle() const { return {fd, false}; }
};

// Every page is taken now, while an error can still be returned; a later write that finds no page
// would be a SIGBUS.
void reserve(const Fd& memory, std::size_t offset, std::size_t nbytes, SharingStrategy strategy) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
  if (nbytes > kMost - offset) throw explain_full("fallocate", EFBIG, nbytes, strategy);
  check_budget(offset + nbytes, strategy);
  // All at once, so that too little space is known before any is taken. A signal makes the kernel
  // undo the whole of a call, though; under a profiler's timer that might never end, so after one
  // it goes on piece by piece.
  constexpr off_t kPiece = off_t{1} << 20;
  const auto total = static_cast<off_t>(offset + nbytes);
  off_t most = total;
  for (off_t at = 0; at < total;) {
    const off_t piece = std::min(most, total - at);
    if (::fallocate(memory.get(), 0, at, piece) == 0) {
      at += piece;
    } else if (errno == EINTR) {
      most = kPiece;
    } else {
      throw explain_full("fallocate", errno, nbytes, strategy);
    }
  }
}

// Reads the header instead of mapping it: the file is not trusted yet.
SegmentHeader check_header(const Fd& memory, const SegmentId& expected) {
  SegmentHeader header{};
  struct stat about {};
  const ssize_t got = ::fstat(memory.get(), &about) < 0 || !S_ISREG(about.st_mode)
                          ? -1
                          : ::pread(memory.get(), &header, sizeof header, 0);
  check(got >= 0, ErrorKind::malformed, "Segment", "the descriptor received for ",
        expected.to_string(), " is no memory");
  const std::string fault = find_fault(header, static_cast<std::uint64_t>(about.st_size));
  if (!fault.empty() || header.id != expected) {
    const bool version = about.st_size >= static_cast<off_t>(kPageSize) &&
                         header.magic == kSegmentMagic &&
                         header.layout_version != kSegmentLayoutVersion;
    throw Error({.kind = version ? ErrorKind::version_mismatch : ErrorKind::malformed,
                 .call = "Segment",
                 .subject = expected.to_string(),
                 .reason = fault.empty() ? "another segment than the message said" : fault});
  }
  // A file with a name cannot be sealed. Its user's other processes could resize it; none of
  // Shoal's does.
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  const bool named = header.strategy == static_cast<std::uint32_t>(SharingStrategy::file_system);
  check(named ? shm_directory::has(memory) : seals >= 0 && (seals & kSeals) == kSeals,
        ErrorKind::malformed, "Segment", "the descriptor received for ", expected.to_string(),
        named ? " is no file of /dev/shm" : " is not sealed against resizing");
  return header;
}

}  // namespace

static std::byte* align_up(std::byte* at, std::size_t step) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(at) % step;
  return past == 0 ? at : at + (step - past);
}

// A huge page maps a part of a file only at an address that lies as it does in the file.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class Segment::Mapping {
 public:
  Mapping(const Fd& memory, bip::mode_t mode, std::size_t nbytes, SharingStrategy strategy) try {
    if (nbytes < 2 * kHugePage || !map_aligned(memory, mode, nbytes))
      region_ = bip::mapped_region(Mappable{memory.get()}, mode, 0, nbytes);
  } catch (const bip::interprocess_exception& failed) {
    throw explain_full("mmap", failed.get_native_error(), nbytes, strategy);
  }
  [[nodiscard]] std::byte* address() const {
    return static_cast<std::byte*>(region_.get_address());
  }

 private:
  // Finds an address by making room and giving it up again; false if another thread was faster.
  bool map_aligned(const Fd& memory, bip::mode_t mode, std::size_t nbytes) {
    void* room = ::mmap(nullptr, nbytes + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    std::byte* const aligned = align_up(static_cast<std::byte*>(room), kHugePage);
    ::munmap(room, nbytes + kHugePage);
    try {
      region_ = bip::mapped_region(Mappable{memory.get()}, mode, 0, nbytes, aligned);
      return true;
    } catch (const bip::interprocess_exception&) {
      return false;
    }
  }

  bip::mapped_region region_;
};

void Segment::map(const Fd& memory) {
  mapping_ = std::make_unique<Mapping>(memory, bip::read_write, data_offset_ + nbytes_, strategy_);
  base_ = mapping_->address();
}

Segment::Segment(std::size_t nbytes, std::uint32_t blocks, SharingStrategy strategy)
    : id_(strategy == SharingStrategy::file_system ? SegmentId{} : SegmentId::random()),
      strategy_(strategy),
      owned_here_(true),
      blocks_(blocks),
      nbytes_(nbytes),
      data_offset_(data_offset_for(blocks)) {
  check(nbytes > 0 && blocks > 0, ErrorKind::invalid_argument, "Segment", "a segment of no bytes");
  if (strategy == SharingStrategy::file_system) {
    try {
      memory_ = shm_directory::create_unnamed();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::limit_reached) throw;
      throw explain_full("open", error.errno_value(), nbytes, strategy);
    }
  } else {
    memory_ = Fd{::memfd_create("shoal-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!memory_) throw explain_full("memfd_create", errno, nbytes, strategy);
  }
  reserve(memory_, data_offset_, nbytes, strategy);
  map(memory_);
  const auto self = static_cast<std::uint32_t>(::getpid());
  control().header = {.magic = kSegmentMagic,
                      .layout_version = kSegmentLayoutVersion,
                      .strategy = static_cast<std::uint32_t>(strategy),
                      .id = id_,
                      .nbytes = nbytes,
                      .data_offset = data_offset_,
                      .blocks = blocks,
                      .creator_pid = self,
                      .reserved = 0};
  control().takers[kPinned].store(self, std::memory_order_relaxed);
  // Locked before it has a name or leaves this process: nobody sees it without a holder.
  check(try_lock_slot(memory_.get(), kOwnerSlot), ErrorKind::system, "Segment",
        "a new file was locked already");
  control().takers[kOwnerSlot].store(self, std::memory_order_release);
  takes_part_ = true;
  if (strategy == SharingStrategy::file_descriptor) {
    if (::fcntl(memory_.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) < 0)
      throw_errno("fcntl(F_ADD_SEALS)", "a shared segment");
    return;
  }
  // A name that is taken would need 128 equal random bits, or somebody's intent.
  const std::string prefix = shm_directory::name_prefix();
  std::ranges::copy(prefix, control().name_prefix.begin());
  for (;;) {
    // Told first: nothing that has a name goes unwatched, whenever we are killed.
    id_ = manager::hold_new(prefix);
    name_ = segment_name(prefix, id_);
    control().header.id = id_;
    try {
      if (shm_directory::link(memory_, name_)) return;
    } catch (...) {
      manager::forget(name_);
      throw;
    }
    manager::forget(name_);
  }
}

Segment::Segment(const Fd& memory, const SegmentId& expected) : id_(expected), owned_here_(false) {
  const SegmentHeader header = check_header(memory, expected);
  strategy_ = static_cast<SharingStrategy>(header.strategy);
  blocks_ = header.blocks;
  nbytes_ = header.nbytes;
  data_offset_ = header.data_offset;
  memory_ = reopen(memory.get());
  map(memory_);
  rejoin(memory);
  if (strategy_ != SharingStrategy::file_system) return;
  // Its maker may have another prefix than we. Copied before it is looked at.
  const std::array<char, 56> text = control().name_prefix;
  const std::string_view prefix(text.data(), ::strnlen(text.data(), text.size()));
  if (!shm_directory::is_name_prefix(prefix)) return;
  name_ = segment_name(prefix, id_);
  manager::hold_if_reachable(name_);
}

void Segment::rejoin(const Fd& memory) {
  if (!memory_) memory_ = reopen(memory.get());
  slot_ = take_slot(memory_.get());
  takes_part_ = true;
}

Segment::~Segment() {
  // No block of it is used here any more, so the slot is clean.
  if (takes_part_) control().takers[slot_].store(0, std::memory_order_release);
  leave();
}

void Segment::leave() noexcept {
  close_flight();
  if (!std::exchange(takes_part_, false)) {
    if (!name_.empty()) manager::release(name_);
    return;
  }
  // Two that leave at once: each frees its slot first, then one of them gets all of them.
  unlock_slot(memory_.get(), slot_);
  if (name_.empty()) return;
  if (!try_lock_all_slots(memory_.get())) return manager::release(name_);
  remove_name();
  manager::forget(name_);
}

void Segment::remove_name() noexcept {
  // The name comes from the file, and so from whoever wrote that: it may be another segment's.
  if (!name_.empty()) shm_directory::unlink(name_, memory_);
}

const std::byte* Segment::read_only_data() {
  if (read_only_ == nullptr) {
    read_only_ =
        std::make_unique<Mapping>(memory_, bip::read_only, data_offset_ + nbytes_, strategy_);
  }
  return read_only_->address() + data_offset_;
}

void Segment::write_through(std::size_t offset, const void* from, std::size_t nbytes) {
  const auto* bytes = static_cast<const std::byte*>(from);
  while (nbytes > 0) {
    const ssize_t wrote =
        ::pwrite(memory_.get(), bytes, nbytes, static_cast<off_t>(data_offset_ + offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) throw_errno("pwrite", "a shared segment");
    const auto done = static_cast<std::size_t>(wrote);
    bytes += done, offset += done, nbytes -= done;
  }
}

void Segment::prefault(std::size_t offset, std::size_t nbytes) noexcept {
  std::byte* const begin = data() + offset / kPageSize * kPageSize;  // data start on a page
  std::byte* const end = data() + offset + nbytes;
  std::byte* const first = align_up(begin, kHugePage);
  // Huge pages (Linux 6.1), for whoever maps the file: a hundredth of the faults, there too. Then
  // whatever is still missing, many pages at a time (Linux 5.14). What cannot be had so comes page
  // by page as it is touched.
  if (first < end) {
    const auto whole = static_cast<std::size_t>(end - first) / kHugePage * kHugePage;
    if (whole > 0) ::madvise(first, whole, MADV_COLLAPSE);
  }
  ::madvise(begin, static_cast<std::size_t>(end - begin), MADV_POPULATE_WRITE);
}

bool Segment::owner_is_gone() const {
  return !owned_here_ && (control().retired.load(std::memory_order_acquire) != 0 ||
                          !slot_is_locked(memory_.get(), kOwnerSlot));
}

void Segment::retire() noexcept {
  control().retired.store(1, std::memory_order_release);
  remove_name();
  // Where another process still maps it, unused, it is an empty file now.
  ::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(data_offset_), static_cast<off_t>(nbytes_));
}

}  // namespace shoal
