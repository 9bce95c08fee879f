#include <algorithm>

#include "fuzz/fuzz.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/manager_protocol.h"

// Arbitrary bytes as a message to or from shm-manager: they are refused as the contract says, or
// mean what they say, so that to say it again takes the same bytes.

namespace {

using namespace shoal;
using namespace shoal::manager;

std::string name(char digit) { return "shoal-segment-" + std::string(32, digit); }

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const Client client{.pid = 1, .uid = 2, .connected_s = 3, .messages = 4, .holds = 5};
  const std::vector<Frame> frames = {
      {.verb = Verb::hello, .pid = 7},
      {.verb = Verb::welcome, .pid = 7},
      {.verb = Verb::hold, .names = {name('0'), name('f')}},
      {.verb = Verb::release, .names = {"my.team-segment-" + std::string(32, 'a')}},
      {.verb = Verb::report, .first = 1},
      {.verb = Verb::done},
      {.verb = Verb::refused, .reason = "too many names"},
      {.verb = Verb::clients, .first = 1, .total = 3, .clients = {client, client}},
  };
  std::vector<std::vector<std::byte>> seeds;
  for (const Frame& frame : frames) seeds.push_back(encode(frame));
  fuzz::write_seeds(seeds);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Frame frame;
  try {
    frame = decode(bytes);
  } catch (const Error& error) {
    fuzz::require(
        error.kind() == ErrorKind::malformed || error.kind() == ErrorKind::version_mismatch,
        "decode throws malformed or version_mismatch");
    return 0;
  }
  fuzz::require(std::ranges::equal(encode(frame), bytes), "what decodes encodes to the same bytes");
  fuzz::require(frame.names.size() <= kMostNames && frame.clients.size() <= kMostClients &&
                    frame.reason.size() <= kMostReason,
                "a message has no more than it may have");
  for (const std::string& text : frame.names)
    fuzz::require(is_segment_name(text) && text.find('/') == std::string::npos &&
                      text.find('\0') == std::string::npos,
                  "a name is a segment's and no path");
  return 0;
}
