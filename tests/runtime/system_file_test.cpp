#include "shoal/runtime/shm/system_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "support/scratch_directory.h"

namespace shoal::system_file {
namespace {

TEST(SystemFile, NumbersAreDecimalAndFitIn64Bits) {
  EXPECT_EQ(parse_number("0"), 0u);
  EXPECT_EQ(parse_number(" 42\n"), 42u);
  EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "\n", "max", "-1", "+1", "0x10", "1 2", "1.5", "12kB",
                           "18446744073709551616", "99999999999999999999999999"})
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
}

TEST(SystemFile, NumbersAreFoundByTheirWholeKey) {
  constexpr std::string_view kText =
      "MemTotal:       24 kB\nMemFree: 7\n\nactive_file 5\ntotal_active_file 6\nHuge: "
      "18446744073709551615 kB\nWords: many\nEmpty:\nlast 9";
  EXPECT_EQ(find_number(kText, "MemTotal:"), 24u * 1024);
  EXPECT_EQ(find_number(kText, "MemFree:"), 7u);
  EXPECT_EQ(find_number(kText, "active_file"), 5u);
  EXPECT_EQ(find_number(kText, "last"), 9u);
  EXPECT_EQ(find_number(kText, "Huge:"), UINT64_MAX) << "no wrapping";
  for (const char* key : {"Mem", "Words:", "Empty:", "absent"})
    EXPECT_EQ(find_number(kText, key), std::nullopt) << key;
}

TEST(SystemFile, WhatCannotBeReadIsEmpty) {
  const ScratchDirectory scratch;
  EXPECT_EQ(read(scratch.file("absent")), std::nullopt);
  EXPECT_EQ(read(scratch.path()), std::nullopt) << "a directory";
  EXPECT_EQ(read_number(write_file(scratch.file("empty"), "")), std::nullopt);
  EXPECT_EQ(read(write_file(scratch.file("huge"), std::string((1 << 20) + 1, 'x'))), std::nullopt);
  EXPECT_EQ(count_lines(scratch.file("absent")), std::nullopt);
}

TEST(SystemFile, ThatIsAPipeWithoutAWriterDoesNotBlock) {
  const ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read(scratch.file("pipe")), "");
}

TEST(SystemFile, LinesAreCountedBeyondOnePiece) {
  const ScratchDirectory scratch;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "7f00-7f01 rw-p\n";
  EXPECT_EQ(count_lines(write_file(scratch.file("maps"), text)), 5000u);
  EXPECT_EQ(read(scratch.file("maps")), text);
}

TEST(SystemFile, SumsStopAtTheEnds) {
  EXPECT_EQ(add(UINT64_MAX - 1, 5), UINT64_MAX);
  EXPECT_EQ(subtract(3, 5), 0u);
}

}  // namespace
}  // namespace shoal::system_file
