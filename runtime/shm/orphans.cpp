#include "shoal/runtime/shm/orphans.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include "shoal/runtime/shm/segment_header.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal {
namespace {

bool is_ours(int fd, struct stat& about) {
  return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == ::geteuid();
}

// Reads rather than maps: the file may be truncated under us.
bool is_orphaned(const std::string& name) {
  const Fd file = shm_directory::open(name);
  struct stat about {};
  if (!file || !is_ours(file.get(), about)) return false;
  alignas(SegmentPage) std::byte bytes[sizeof(SegmentPage)];
  if (::pread(file.get(), bytes, sizeof bytes, 0) != sizeof bytes) return false;
  const auto* page = reinterpret_cast<const SegmentPage*>(bytes);
  if (!find_fault(page->header, static_cast<std::uint64_t>(about.st_size)).empty()) return false;
  std::set<TokenId> holders;
  for (const Ledger::Row& row : page->rows) holders.insert(row.load(std::memory_order_relaxed));
  holders.erase(0);
  for (const TokenId holder : holders)
    if (token_is_alive(holder)) return false;
  // A receiver may have taken a row over after it was read and before its sender was judged; only
  // the living change rows, so rows that stand as they were have no living holder.
  alignas(SegmentPage) std::byte again[sizeof(SegmentPage)];
  return ::pread(file.get(), again, sizeof again, 0) == sizeof again &&
         std::memcmp(bytes, again, sizeof bytes) == 0;
}

std::optional<TokenId> token_of(std::string_view name) {
  name.remove_prefix(shm_directory::kTokenPrefix.size());
  TokenId token = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), token, 16);
  if (failed != std::errc() || end != name.data() + name.size() || name.size() != 16) return {};
  return token;
}

}  // namespace

std::size_t reap_orphans() {
  std::size_t removed = 0;
  for (const std::string& name : shm_directory::list(shm_directory::kSegmentPrefix)) {
    if (!is_orphaned(name)) continue;
    shm_directory::unlink(name);
    ++removed;
  }
  // Tokens last: while a segment still lists a token, its file should tell of it.
  for (const std::string& name : shm_directory::list(shm_directory::kTokenPrefix)) {
    const auto token = token_of(name);
    struct stat about {};
    const Fd file = shm_directory::open(name);
    if (token && file && is_ours(file.get(), about) && !token_is_alive(*token))
      shm_directory::unlink(name);
  }
  return removed;
}

}  // namespace shoal
