#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <array>

#include "shoal/tools/shm_manager/printable.h"
#include "shoal/tools/shm_manager/table.h"
#include "tools/operator.h"

// How shm-manager writes: to pipes that close, to terminals, once and again and again.
namespace shoal {
namespace {

using test::kOperatorSoon;
using test::with_output;

struct Pipe {
  Fd read{}, write{};
};

Pipe make_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {Fd{ends[0]}, Fd{ends[1]}};
}

Pipe make_terminal() {
  int ours = -1, theirs = -1;
  EXPECT_EQ(::openpty(&ours, &theirs, nullptr, nullptr, nullptr), 0);
  ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  ::fcntl(theirs, F_SETFD, FD_CLOEXEC);
  return {Fd{ours}, Fd{theirs}};
}

// Reads until `text` has so many of `word`, or it ends.
bool read_until(const Fd& file, std::string& text, const std::string& word, int times = 1) {
  const Deadline deadline = in_seconds(kOperatorSoon);
  for (;;) {
    int count = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
    if (count >= times) return true;
    std::array<char, 4096> some;
    if (!wait_ready(file.get(), POLLIN, deadline)) return false;
    const ssize_t got = ::read(file.get(), some.data(), some.size());
    if (got <= 0) return false;
    text.append(some.data(), static_cast<std::size_t>(got));
  }
}

class ShmManagerOutput : public test::Operator {};

TEST_F(ShmManagerOutput, IntoAClosedPipeIsNoCrash) {
  const std::string name = make_orphan();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"status", "--json"},
                                             {"status", "--prometheus"},
                                             {"reap", "--dry-run"},
                                             {"doctor"}}) {
    Pipe pipe = make_pipe();
    pipe.read.reset();
    Program program(with_output(pipe.write, command(arguments)));
    EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 4) << arguments[0];
    EXPECT_EQ(program.err(), "") << arguments[0];
  }
  Program head(
      {"bash", "-c", "\"$@\" | head -1", "bash", SHM_MANAGER, "status", "--prefix", prefix()});
  EXPECT_EQ(head.wait(in_seconds(kOperatorSoon)), 0);
  EXPECT_EQ(head.out().find("NAME"), 0u);
}

TEST_F(ShmManagerOutput, ThatCannotBeWrittenIsAFailure) {
  const Fd full{::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  Program program(with_output(full, command({"status"})));
  EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 1);
  EXPECT_NE(program.err().find("standard output"), std::string::npos) << program.err();
}

TEST_F(ShmManagerOutput, IsRepeatedUntilASignalEndsIt) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Pipe pipe = make_pipe();
    Program program(with_output(pipe.write, command({"status", "--json", "--watch", "0.1"})));
    pipe.write.reset();
    std::string text;
    ASSERT_TRUE(read_until(pipe.read, text, "\"segments\":[],", 2)) << text;
    {
      const Segment segment(100, 1, SharingStrategy::file_system);
      ASSERT_TRUE(read_until(pipe.read, text, segment.name())) << text;
    }
    ::kill(program.pid(), signal);
    EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 0);
    EXPECT_FALSE(read_until(pipe.read, text, "never"));
    EXPECT_EQ(text.back(), '\n');
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST_F(ShmManagerOutput, EndsWithItsReaderInTheMiddleOfAWait) {
  Pipe pipe = make_pipe();
  Program program(with_output(pipe.write, command({"status", "--watch", "86400"})));
  pipe.write.reset();
  std::string text;
  ASSERT_TRUE(read_until(pipe.read, text, "free\n")) << text;
  pipe.read.reset();
  EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 0);
  EXPECT_EQ(program.err(), "");
}

TEST_F(ShmManagerOutput, EndsOnASignalInTheMiddleOfAWait) {
  make_orphan();
  Pipe pipe = make_pipe();
  Program program(with_output(pipe.write, command({"status", "--watch", "86400"})));
  pipe.write.reset();
  std::string text;
  ASSERT_TRUE(read_until(pipe.read, text, "free\n")) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "no terminal";
  ::kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 0) << "it was asked to end";
}

TEST_F(ShmManagerOutput, IsRedrawnAndColouredOnATerminal) {
  const test::Environment terminal_name("TERM", "xterm"), colours("NO_COLOR", "");
  const Segment segment(100, 1, SharingStrategy::file_system);
  const Pipe terminal = make_terminal();
  Program program(with_output(terminal.write, command({"status", "--watch", "0.1"})));
  std::string text;
  EXPECT_TRUE(read_until(terminal.read, text, "\x1b[H\x1b[2J", 2)) << text;
  EXPECT_NE(text.find("\x1b[32mlive\x1b[0m"), std::string::npos) << text;
  ::kill(program.pid(), SIGINT);
  EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 0);
}

TEST_F(ShmManagerOutput, IsColouredAsIsAskedFor) {
  const Segment segment(100, 1, SharingStrategy::file_system);
  const auto is_coloured = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"status"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Pipe terminal = make_terminal();
    Program program(with_output(terminal.write, command(arguments)));
    std::string text;
    EXPECT_TRUE(read_until(terminal.read, text, "free\r\n")) << text;
    EXPECT_EQ(program.wait(in_seconds(kOperatorSoon)), 0);
    return text.find('\x1b') != std::string::npos;
  };
  const test::Environment terminal_name("TERM", "xterm"), colours("NO_COLOR", "");
  EXPECT_TRUE(is_coloured({}));
  EXPECT_FALSE(is_coloured({"--color", "never"}));
  {
    const test::Environment none("NO_COLOR", "1");
    EXPECT_FALSE(is_coloured({}));
    EXPECT_TRUE(is_coloured({"--color", "always"}));
  }
  const test::Environment dumb("TERM", "dumb");
  EXPECT_FALSE(is_coloured({}));
  EXPECT_EQ(run({"status"}).out.find('\x1b'), std::string::npos) << "to a file";
  EXPECT_NE(run({"status", "--color", "always"}).out.find('\x1b'), std::string::npos);
}

TEST(ShmManagerPrintable, KeepsDifferentBytesDifferent) {
  EXPECT_EQ(tools::printable("plain-1"), "plain-1");
  EXPECT_EQ(tools::printable("\x1b\\x1b"), "\\x1b\\\\x1b");
  EXPECT_EQ(tools::printable(std::string("\0\n\x7f\xe9", 4)), "\\x00\\x0a\\x7f\\xe9");
}

TEST(ShmManagerAge, IsInItsLargestUnit) {
  using tools::Age;
  EXPECT_EQ(concat(Age{0}, ", ", Age{59}, ", ", Age{60}, ", ", Age{3599}),
            "0 s, 59 s, 1 min, 59 min");
  EXPECT_EQ(concat(Age{3600}, ", ", Age{86399}, ", ", Age{86400 * 400}), "1 h, 23 h, 400 d");
}

TEST(ShmManagerTable, AlignsAndColours) {
  using enum tools::Table::Align;
  const auto text = [](bool colored) {
    tools::Table table({{"NAME"}, {"N", right}, {"STATE"}}, colored);
    table.add({{"a"}, {"100"}, {"live", tools::Paint::good}});
    table.add({{"longer"}, {"1"}, {""}});
    return table.text();
  };
  EXPECT_EQ(text(false),
            "NAME      N  STATE\n"
            "a       100  live\n"
            "longer    1\n");
  EXPECT_NE(text(true).find("  \x1b[32mlive\x1b[0m\n"), std::string::npos);
}

}  // namespace
}  // namespace shoal
