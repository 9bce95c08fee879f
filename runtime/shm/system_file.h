#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Reading the small text files by which the kernel speaks, under /proc and /sys. Whatever is
// absent, unreadable or does not parse is empty: such a file is news about the machine and no
// condition for anything to work.
namespace shoal::system_file {

// The whole of a file of at most 1 MiB.
[[nodiscard]] std::optional<std::string> read(const std::string& path);

// How many lines it has, without keeping them.
[[nodiscard]] std::optional<std::uint64_t> count_lines(const std::string& path);

// A decimal number, blanks around it allowed, nothing else; empty too if it passes 64 bits.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// The number in a file that holds nothing else.
[[nodiscard]] std::optional<std::uint64_t> read_number(const std::string& path);

// The number in the line that starts with `key`, as in "MemFree:   12 kB" and "file 4096". With the
// unit kB it is turned into bytes.
[[nodiscard]] std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

// Takes the first line, or the first word, off the front of `text`; empty when none is left.
[[nodiscard]] std::string_view take_line(std::string_view& text);
[[nodiscard]] std::string_view take_word(std::string_view& text);

// Sums and differences that stop at the ends of the range instead of wrapping.
[[nodiscard]] constexpr std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
[[nodiscard]] constexpr std::uint64_t subtract(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : 0;
}

}  // namespace shoal::system_file
