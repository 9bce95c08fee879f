#include "shoal/runtime/shm/system_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "shoal/runtime/base/fd.h"

namespace shoal::system_file {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\n";

// Hands each piece of the file to `take` until it returns false. False if the file cannot be read.
template <class Take>
bool read_pieces(const std::string& path, Take&& take) {
  // Not blocking: somebody's pipe of that name must not hold us up.
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return false;
  // On the stack: who asks may have run out of memory.
  std::array<char, 8192> piece;
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got == 0) return true;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || !take(std::string_view(piece.data(), static_cast<std::size_t>(got))))
      return false;
  }
}

std::string_view take_until(std::string_view& text, std::string_view ends) {
  const std::size_t end = text.find_first_of(ends);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

}  // namespace

std::optional<std::string> read(const std::string& path) {
  std::string text;
  const bool whole = read_pieces(path, [&](std::string_view piece) {
    text += piece;
    return text.size() <= kMostBytes;
  });
  return whole ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<std::uint64_t> count_lines(const std::string& path) {
  std::uint64_t lines = 0;
  const bool whole = read_pieces(path, [&](std::string_view piece) {
    lines += static_cast<std::uint64_t>(std::count(piece.begin(), piece.end(), '\n'));
    return true;
  });
  return whole ? std::optional(lines) : std::nullopt;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const std::size_t from = text.find_first_not_of(kBlanks);
  if (from == std::string_view::npos) return std::nullopt;
  text = text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read(path);
  return text ? parse_number(*text) : std::nullopt;
}

std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_word(line) != key) continue;
    const auto number = parse_number(take_word(line));
    if (!number || take_word(line) != "kB") return number;
    return *number > UINT64_MAX / 1024 ? UINT64_MAX : *number * 1024;
  }
  return std::nullopt;
}

std::string_view take_line(std::string_view& text) { return take_until(text, "\n"); }

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return take_until(text, kBlanks);
}

}  // namespace shoal::system_file
