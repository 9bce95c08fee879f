#include "shoal/runtime/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <limits>
#include <new>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal {
namespace {

namespace bip = boost::interprocess;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// Lends a descriptor to Boost.Interprocess, which maps anything that has this member.
struct Mappable {
  int fd;
  [[nodiscard]] bip::mapping_handle_t get_mapping_handle() const { return {fd, false}; }
};

std::string name_of(const SegmentId& id) {
  return concat(shm_directory::kSegmentPrefix, id.to_string());
}

[[noreturn]] void throw_full(int errno_value, std::size_t nbytes, SharingStrategy strategy) {
  const bool named = strategy == SharingStrategy::file_system;
  const bool full = errno_value == ENOSPC || errno_value == ENOMEM || errno_value == EFBIG;
  throw Error(
      {.kind = full ? ErrorKind::no_space : ErrorKind::system,
       .call = "fallocate",
       .subject = concat("a shared segment, strategy ", to_string(strategy)),
       .reason = concat("wanted ", ByteCount{nbytes}, ", ",
                        named ? concat("/dev/shm has ", shm_directory::describe_space())
                              : std::string("the system's or the cgroup's memory is used up"),
                        " (", ::strerrorname_np(errno_value), ")"),
       .remedy = named ? "Enlarge it with `mount -o remount,size=… /dev/shm` (a container: "
                         "`--shm-size=…`), or use the file_descriptor strategy, which /dev/shm's "
                         "size does not limit"
                       : "Share less, or raise the memory limit (a container: `--memory=…`)",
       .errno_value = errno_value});
}

// Every page is taken now, while an error can still be returned; a later write that finds no page
// would be a SIGBUS.
void reserve(const Fd& memory, std::size_t nbytes, SharingStrategy strategy) {
  constexpr auto kMost =
      static_cast<std::size_t>(std::numeric_limits<off_t>::max()) - kSegmentDataOffset;
  if (nbytes > kMost) throw_full(EFBIG, nbytes, strategy);
  // All at once, so that too little space is known before any is taken. A signal makes the kernel
  // undo the whole of a call, though; under a profiler's timer that might never end, so after one
  // it goes on piece by piece.
  constexpr off_t kPiece = off_t{1} << 20;
  const auto total = static_cast<off_t>(kSegmentDataOffset + nbytes);
  off_t most = total;
  for (off_t at = 0; at < total;) {
    const off_t piece = std::min(most, total - at);
    if (::fallocate(memory.get(), 0, at, piece) == 0) {
      at += piece;
    } else if (errno == EINTR) {
      most = kPiece;
    } else {
      throw_full(errno, nbytes, strategy);
    }
  }
}

std::uint64_t size_of(const Fd& memory) {
  struct stat about {};
  if (::fstat(memory.get(), &about) < 0) throw_errno("fstat", "segment");
  return static_cast<std::uint64_t>(about.st_size);
}

// Reads the header instead of mapping it: the file is not trusted yet.
SegmentHeader check_header(const Fd& memory, const SegmentId& expected) {
  SegmentHeader header{};
  const std::uint64_t size = size_of(memory);
  if (::pread(memory.get(), &header, sizeof header, 0) < 0) throw_errno("pread", "segment");
  const std::string fault = find_fault(header, size);
  if (!fault.empty() || header.id != expected) {
    const bool version = size >= kSegmentDataOffset && header.magic == kSegmentMagic &&
                         header.layout_version != kSegmentLayoutVersion;
    throw Error({.kind = version ? ErrorKind::version_mismatch : ErrorKind::malformed,
                 .call = "Segment::attach",
                 .subject = expected.to_string(),
                 .reason = fault.empty() ? "another segment than the message said" : fault});
  }
  return header;
}

}  // namespace

// The memory as this process sees it.
class Segment::Mapping {
 public:
  Mapping(const Fd& memory, std::size_t nbytes) try
      : region_(Mappable{memory.get()}, bip::read_write, 0, kSegmentDataOffset + nbytes) {
  } catch (const bip::interprocess_exception& failed) {
    throw_errno(failed.get_native_error(), "mmap", concat("a segment of ", ByteCount{nbytes}),
                failed.get_native_error() == ENOMEM
                    ? "Hold fewer tensors, or raise `sysctl vm.max_map_count` or `ulimit -v`"
                    : "");
  }

  [[nodiscard]] SegmentPage& page() const {
    return *static_cast<SegmentPage*>(region_.get_address());
  }
  [[nodiscard]] std::byte* data() const {
    return static_cast<std::byte*>(region_.get_address()) + kSegmentDataOffset;
  }
  // From the mapping's own size: the header is writable by others.
  [[nodiscard]] std::size_t nbytes() const { return region_.get_size() - kSegmentDataOffset; }

  SegmentId id;
  SharingStrategy strategy = SharingStrategy::file_descriptor;

 private:
  bip::mapped_region region_;
};

Segment::Segment(std::unique_ptr<Mapping> mapping, Fd memory)
    : mapping_(std::move(mapping)), memory_(std::move(memory)) {}

Segment Segment::create(std::size_t nbytes, SharingStrategy strategy) {
  check(nbytes > 0, ErrorKind::invalid_argument, "Segment::create", "a segment of no bytes");
  const bool named = strategy == SharingStrategy::file_system;
  const TokenId token = named ? my_token() : 0;
  const SegmentId id = SegmentId::random();
  Fd memory;
  if (named) {
    memory = shm_directory::create_unnamed();
  } else {
    memory = Fd{::memfd_create("shoal-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!memory) {
      throw_errno("memfd_create", concat("a shared segment of ", ByteCount{nbytes}),
                  errno == EMFILE ? "Raise the limit of open files with `ulimit -n`" : "");
    }
  }
  reserve(memory, nbytes, strategy);
  auto mapping = std::make_unique<Mapping>(memory, nbytes);
  Segment segment(std::move(mapping), std::move(memory));
  segment.mapping_->id = id;
  segment.mapping_->strategy = strategy;
  SegmentPage& page = segment.mapping_->page();
  page.header = {.magic = kSegmentMagic,
                 .layout_version = kSegmentLayoutVersion,
                 .strategy = static_cast<std::uint32_t>(strategy),
                 .id = id,
                 .nbytes = nbytes,
                 .data_offset = kSegmentDataOffset,
                 .creator = token,
                 .reserved = 0};
  if (named) {
    segment.hold();
    check(shm_directory::link(segment.memory_, name_of(id)), ErrorKind::system, "Segment::create",
          "the name ", name_of(id), " is taken");
    segment.memory_.reset();
  } else if (::fcntl(segment.fd(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) < 0) {
    throw_errno("fcntl(F_ADD_SEALS)", "a shared segment");
  }
  return segment;
}

Segment Segment::attach(Fd memory, const SegmentId& expected) {
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  check(seals >= 0 && (seals & kSeals) == kSeals, ErrorKind::malformed, "Segment::attach",
        "the descriptor received for ", expected.to_string(), " is not sealed against resizing");
  const SegmentHeader header = check_header(memory, expected);
  auto mapping = std::make_unique<Mapping>(memory, header.nbytes);
  Segment segment(std::move(mapping), std::move(memory));
  segment.mapping_->id = expected;
  segment.mapping_->strategy = SharingStrategy::file_descriptor;
  return segment;
}

Segment Segment::attach(const SegmentId& expected, TokenId sender) {
  const TokenId token = my_token();
  Fd memory = shm_directory::open(name_of(expected));
  if (!memory) throw_errno("open", concat(shm_directory::kPath, '/', name_of(expected)));
  const SegmentHeader header = check_header(memory, expected);
  Segment segment(std::make_unique<Mapping>(memory, header.nbytes), Fd{});
  segment.mapping_->id = expected;
  segment.mapping_->strategy = SharingStrategy::file_system;
  check(sender != 0 && segment.ledger().exchange(sender, token), ErrorKind::malformed,
        "Segment::attach", "the message does not hold ", expected.to_string(), ", which it names");
  segment.holder_ = token;
  return segment;
}

Segment::Segment(Segment&& other) noexcept = default;

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  release();
  mapping_ = std::move(other.mapping_);
  memory_ = std::move(other.memory_);
  holder_ = std::exchange(other.holder_, 0);
  return *this;
}

Segment::~Segment() { release(); }

std::byte* Segment::data() const { return mapping_->data(); }
std::size_t Segment::nbytes() const { return mapping_->nbytes(); }
SegmentId Segment::id() const { return mapping_->id; }
SharingStrategy Segment::strategy() const { return mapping_->strategy; }
std::string Segment::name() const { return name_of(id()); }

Ledger Segment::ledger() const { return Ledger(mapping_->page().rows, mapping_->page().additions); }

void Segment::hold() {
  const TokenId token = my_token();
  if (holder_ == token) return;
  if (!ledger().add(token)) {
    throw Error({.kind = ErrorKind::limit_reached,
                 .call = "Segment",
                 .subject = name(),
                 .reason = concat("all ", kLedgerRows, " rows for holders are taken"),
                 .remedy = "Let receivers catch up: every process and every message on its way "
                           "takes a row"});
  }
  holder_ = token;
}

void Segment::hold_for_message() {
  if (strategy() != SharingStrategy::file_system) return;
  hold();
  check(ledger().add(holder_), ErrorKind::limit_reached, "Segment::hold_for_message",
        "too many messages with this tensor are on their way");
}

void Segment::release_message_hold(TokenId sender) noexcept { ledger().remove(sender); }

void Segment::accept_message_hold(TokenId sender) {
  const TokenId token = my_token();
  if (holder_ != token && sender != 0 && ledger().exchange(sender, token)) {
    holder_ = token;
  } else {
    ledger().remove(sender);
  }
}

void Segment::release() noexcept {
  if (mapping_ == nullptr || holder_ == 0) return;
  // A forked child inherits the object but not the hold: the token is its parent's.
  if (std::exchange(holder_, 0) != my_token_if_any()) return;
  Ledger holders = ledger();
  holders.remove(my_token_if_any());
  if (!holders.strike_dead()) return;
  try {
    shm_directory::unlink(name());
  } catch (const std::bad_alloc&) {
    // Whoever reaps next finds the name.
  }
}

}  // namespace shoal
