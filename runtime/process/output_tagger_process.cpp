#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/output_tagger.h"

namespace shoal {
namespace {

constexpr std::size_t kMostLine = 64 * 1024;  // longer ones come in parts

// One stream of one worker.
struct Stream {
  Fd source;
  int target = STDOUT_FILENO;
  std::string tag;
  std::string line;  // that has not ended yet
};

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(to, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // nobody reads any more; the workers go on all the same
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

// False at its end. Whole lines go out in one call, so that others' do not come between.
bool pass_on(Stream& stream) {
  std::array<char, 16 * 1024> part;
  const ssize_t got = ::read(stream.source.get(), part.data(), part.size());
  if (got < 0) return errno == EINTR;
  std::string out;
  for (std::string_view rest(part.data(), static_cast<std::size_t>(got)); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    stream.line += rest.substr(0, end);
    const bool whole = end < rest.size();
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!whole && stream.line.size() < kMostLine) continue;
    out += stream.tag + std::exchange(stream.line, {}) + '\n';
  }
  if (got == 0 && !stream.line.empty()) out += stream.tag + stream.line + '\n';
  write_all(stream.target, out);
  return got > 0;
}

}  // namespace

int tag_output(std::vector<Fd> reading) {
  // What ends the workers does not end this before their last words. And where nobody listens, the
  // workers need not hear of it.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < reading.size(); ++i) {
    streams.push_back({.source = std::move(reading[i]),
                       .target = i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO,
                       .tag = concat('[', i / 2, "] "),
                       .line = {}});
  }
  while (!streams.empty()) {
    std::vector<pollfd> waiting;
    waiting.reserve(streams.size());
    for (const Stream& stream : streams)
      waiting.push_back({.fd = stream.source.get(), .events = POLLIN, .revents = 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno == EINTR) continue;
      throw_errno("poll", "the workers' output");
    }
    for (std::size_t i = streams.size(); i-- > 0;)
      if (waiting[i].revents != 0 && !pass_on(streams[i]))
        streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return 0;
}

}  // namespace shoal
