#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "fuzz/fuzz.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/segment.h"
#include "shoal/runtime/shm/segment_survey.h"
#include "shoal/runtime/shm/shm_directory.h"

// Arbitrary bytes as a segment: as a header, as a file that another process sent, and as a file
// that is met in /dev/shm. They are refused, or nothing that is done with the segment leaves it.

namespace {

using namespace shoal;
using fuzz::require;

constexpr std::uint64_t kMostPages = 16;

// How an input begins; the file's contents follow.
struct Plan {
  std::uint8_t plausible;  // odd: the header is mended where chance would not get it right
  std::uint8_t named;      // odd: the file lies in /dev/shm
  std::uint8_t seals;      // as F_ADD_SEALS takes them
  std::uint8_t pages;      // 0: the file ends with the contents
  std::uint8_t other_id;   // odd: the message names another segment
  std::uint8_t slot_high;
  std::uint16_t slot;
  std::uint32_t block;
};
static_assert(sizeof(Plan) == 12);

void mend(SegmentHeader& header, std::uint64_t file_size) {
  header.magic = kSegmentMagic;
  header.layout_version = kSegmentLayoutVersion;
  header.strategy %= 2;
  header.blocks = 1 + header.blocks % 128;
  header.data_offset = data_offset_for(header.blocks);
  if (file_size > header.data_offset)
    header.nbytes = 1 + header.nbytes % (file_size - header.data_offset);
}

void look_at_header(const SegmentHeader& header, std::uint64_t file_size) {
  if (!find_fault(header, file_size).empty()) return;
  require(header.nbytes > 0 && header.data_offset <= file_size &&
              header.nbytes <= file_size - header.data_offset,
          "the data lie in the file");
  require(header.blocks > 0 &&
              sizeof(SegmentControl) + std::uint64_t{header.blocks} * sizeof(HolderSet) <=
                  header.data_offset,
          "the holders lie before the data");
}

Fd make_file(const Plan& plan, std::span<const std::byte> contents, std::uint64_t file_size) {
  Fd file = plan.named % 2 != 0 ? shm_directory::create_unnamed()
                                : Fd{::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  const auto written = ::pwrite(file.get(), contents.data(), contents.size(), 0);
  require(written == static_cast<ssize_t>(contents.size()) &&
              ::ftruncate(file.get(), static_cast<off_t>(file_size)) == 0,
          "there is room for a file of the fuzzer's");
  if (plan.named % 2 == 0) ::fcntl(file.get(), F_ADD_SEALS, plan.seals & 0x1f);
  return file;
}

// All that a process does with a segment that came with a message.
void use(Segment& segment, const Plan& plan) {
  const std::uint32_t block = plan.block % segment.blocks();
  segment.data()[0] = std::byte{1};
  segment.data()[segment.nbytes() - 1] = std::byte{2};
  require(segment.read_only_data()[segment.nbytes() - 1] == std::byte{2} || segment.nbytes() == 1,
          "both mappings show the same");
  // A message may name any slot and any block.
  (void)segment.arrive(plan.block, static_cast<FlightKind>(plan.slot_high % 2), plan.slot);
  segment.refuse(plan.block, static_cast<FlightKind>(plan.slot_high % 2), plan.slot);
  (void)segment.is_alive(plan.slot);
  (void)segment.taker(plan.slot);
  segment.hold(block);
  require(!segment.is_free(block), "a held block is not free");
  const auto flight = segment.depart(std::span(&block, 1));
  segment.abandon(*flight, std::span(&block, 1));
  (void)segment.strike_dead();
  segment.let_go(block);
  (void)segment.owner_is_gone();
}

void open_as_received(const Fd& file, const Plan& plan, SegmentId id) {
  if (plan.other_id % 2 != 0) id.low ^= 1;
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  try {
    Segment segment(file, id);
    require(plan.other_id % 2 == 0, "only the segment that was meant is opened");
    constexpr int kSized = F_SEAL_SHRINK | F_SEAL_GROW;
    require(plan.named % 2 != 0 || (seals & kSized) == kSized, "memory without a name is sealed");
    use(segment, plan);
  } catch (const Error& error) {
    // With such a seal nobody can have it mapped for writing.
    const bool read_only = (plan.seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0;
    require(error.kind() == ErrorKind::malformed || error.kind() == ErrorKind::version_mismatch ||
                read_only,
            "a bad segment is malformed or of another version");
  }
}

// Nobody has a lock on it, so it is an orphan or no segment, for both who look.
void meet_by_name(const Fd& file) {
  static const std::string name =
      concat("shoal-fuzz-", ::getpid(), "-segment-", SegmentId{1, 2}.to_string());
  require(shm_directory::link(file, name), "the fuzzer's name is free");
  const auto report = survey_segment(name);
  const ReapOutcome outcome = reap_segment(name);
  shm_directory::unlink(name);
  require(report.has_value(), "a file that is there is reported");
  require(report->state != SegmentState::live, "nobody has a lock");
  require((report->state == SegmentState::unknown) == !report->reason.empty(),
          "what cannot be judged has a reason, and nothing else has");
  require((report->state == SegmentState::orphaned) == (outcome == ReapOutcome::removed),
          "what is shown as orphaned is removed, and nothing else is");
}

std::vector<std::byte> seed(const Plan& plan, std::uint32_t strategy) {
  std::vector<std::byte> bytes(sizeof plan + sizeof(SegmentControl) + sizeof(HolderSet));
  SegmentHeader header{.magic = kSegmentMagic,
                       .layout_version = kSegmentLayoutVersion,
                       .strategy = strategy,
                       .id = {3, 4},
                       .nbytes = 100,
                       .data_offset = data_offset_for(1),
                       .blocks = 1,
                       .creator_pid = 5,
                       .reserved = 0};
  const char prefix[] = "shoal-fuzz-";
  std::memcpy(bytes.data(), &plan, sizeof plan);
  std::memcpy(bytes.data() + sizeof plan, &header, sizeof header);
  std::memcpy(bytes.data() + sizeof plan + offsetof(SegmentControl, name_prefix), prefix,
              sizeof prefix);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  ::setenv("SHOAL_MANAGER", "off", 1);
  constexpr std::uint8_t kSealed = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
  fuzz::write_seeds({
      seed({.plausible = 0, .named = 0, .seals = kSealed, .pages = 2}, 0),
      seed({.plausible = 1, .named = 0, .seals = kSealed, .pages = 5, .slot = 6}, 0),
      seed({.plausible = 0, .named = 0, .seals = 0, .pages = 2}, 0),
      seed({.plausible = 0, .named = 0, .seals = F_SEAL_WRITE | kSealed, .pages = 2}, 0),
      seed({.plausible = 0, .named = 1, .seals = 0, .pages = 2}, 1),
      seed({.plausible = 1, .named = 1, .seals = 0, .pages = 9, .slot = 3, .block = 2}, 1),
      seed({.plausible = 0, .named = 1, .seals = 0, .pages = 0}, 1),
      seed({.plausible = 0, .named = 1, .seals = 0, .pages = 2, .other_id = 1}, 1),
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  const auto plan = input.take<Plan>();
  const std::uint64_t whole_size = kPageSize * (plan.pages % (kMostPages + 1));
  std::vector<std::byte> contents(input.rest().begin(), input.rest().end());
  if (whole_size != 0 && contents.size() > whole_size) contents.resize(whole_size);
  const std::uint64_t file_size = whole_size != 0 ? whole_size : contents.size();

  auto header = fuzz::Input(contents).take<SegmentHeader>();
  look_at_header(header, file_size);
  if (plan.plausible % 2 != 0 && contents.size() >= sizeof header) {
    mend(header, file_size);
    look_at_header(header, file_size);
    std::memcpy(contents.data(), &header, sizeof header);
  }
  const Fd file = make_file(plan, contents, file_size);
  open_as_received(file, plan, header.id);
  if (plan.named % 2 != 0) meet_by_name(file);
  return 0;
}
