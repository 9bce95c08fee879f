#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What clients and shm-manager say to each other: one packet a message, over SOCK_SEQPACKET
// (unix_socket.h). A client speaks first, and gets one answer to each request, in order.
//
//   client                          manager
//   hello(pid)                      welcome(pid), or refused and the end of the connection
//   hold(names)                     done, or refused: none of them is held then
//   release(names)                  done; those that exist are looked at
//   report(first)                   clients from number `first` on, as many as fit
//
// A connection that ends lets go of all that was held through it; so does a killed client.
namespace shoal::manager {

inline constexpr std::uint32_t kMagic = 0x4d4c'4853;  // "SHLM"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kMaxFrame = 32 * 1024;
inline constexpr std::size_t kMostNames = 64;  // in one message
inline constexpr std::size_t kMostNameBytes = 128;
inline constexpr std::size_t kMostClients = 512;  // in one message
inline constexpr std::size_t kMostReason = 1024;  // bytes; longer ones are cut

enum class Verb : std::uint8_t {
  hello = 1,
  hold = 2,
  release = 3,
  report = 4,
  welcome = 65,
  done = 66,
  refused = 67,
  clients = 68,
};

struct Client {
  std::uint32_t pid = 0;  // as the kernel tells the manager
  std::uint32_t uid = 0;
  std::uint64_t connected_s = 0;  // ago
  std::uint64_t messages = 0;     // since then
  std::uint64_t holds = 0;        // names
};

// Of the fields only those of the verb mean anything; the others are left as they are here.
struct Frame {
  Verb verb = Verb::hello;
  std::uint32_t pid = 0;             // hello, welcome
  std::vector<std::string> names{};  // hold, release
  std::uint32_t first = 0;           // report, clients
  std::string reason{};              // refused
  std::uint32_t total = 0;           // clients: how many there are in all
  std::vector<Client> clients{};     // clients
};

// Throws Error(invalid_argument) for what does not fit a frame.
[[nodiscard]] std::vector<std::byte> encode(const Frame& frame);

// Checks everything: Error(malformed) for bytes that no encode makes, Error(version_mismatch) for
// another version, naming both. `bytes` may be anything at all.
[[nodiscard]] Frame decode(std::span<const std::byte> bytes);

// Whether a segment can have this name: a prefix, "segment-", 32 hexadecimal digits. So it is no
// path, and nobody else's file is likely to have it.
[[nodiscard]] bool is_segment_name(std::string_view name);

}  // namespace shoal::manager
