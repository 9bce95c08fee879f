#include "shoal/runtime/shm/manager_protocol.h"

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/wire.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal::manager {
namespace {

constexpr const char* kCall = "shm-manager message";

// What a Client takes on the wire.
constexpr std::size_t kClientBytes = 2 * sizeof(std::uint32_t) + 3 * sizeof(std::uint64_t);
static_assert(kMostClients * kClientBytes < kMaxFrame && kMostNames * kMostNameBytes < kMaxFrame);

void put_names(WireWriter& out, const std::vector<std::string>& names) {
  check(!names.empty() && names.size() <= kMostNames, ErrorKind::invalid_argument, kCall,
        names.size(), " names; a message takes 1 to ", kMostNames);
  out.put(static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) {
    check(is_segment_name(name), ErrorKind::invalid_argument, kCall, "no segment has such a name");
    out.put_text(name);
  }
}

std::vector<std::string> get_names(WireReader& in) {
  const auto count = in.get<std::uint32_t>();
  check(count >= 1 && count <= kMostNames, ErrorKind::malformed, kCall, count,
        " names; a message takes 1 to ", kMostNames);
  std::vector<std::string> names;
  names.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    names.push_back(in.get_text());
    check(is_segment_name(names.back()), ErrorKind::malformed, kCall, "no segment has the name ",
          i);
  }
  return names;
}

void put_client(WireWriter& out, const Client& client) {
  out.put(client.pid);
  out.put(client.uid);
  out.put(client.connected_s);
  out.put(client.messages);
  out.put(client.holds);
}

Client get_client(WireReader& in) {
  Client client;
  client.pid = in.get<std::uint32_t>();
  client.uid = in.get<std::uint32_t>();
  client.connected_s = in.get<std::uint64_t>();
  client.messages = in.get<std::uint64_t>();
  client.holds = in.get<std::uint64_t>();
  return client;
}

std::vector<Client> get_clients(WireReader& in) {
  const auto count = in.get<std::uint32_t>();
  check(count <= kMostClients, ErrorKind::malformed, kCall, count, " clients in one message");
  std::vector<Client> clients;
  clients.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) clients.push_back(get_client(in));
  return clients;
}

}  // namespace

bool is_segment_name(std::string_view name) {
  constexpr std::string_view kKind = "segment-";
  constexpr std::size_t kDigits = 32;
  if (name.size() < kKind.size() + kDigits || name.size() > kMostNameBytes) return false;
  const std::string_view digits = name.substr(name.size() - kDigits);
  name.remove_suffix(kDigits);
  if (!name.ends_with(kKind)) return false;
  name.remove_suffix(kKind.size());
  return shm_directory::is_name_prefix(name) &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::byte> encode(const Frame& frame) {
  WireWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put(static_cast<std::uint8_t>(frame.verb));
  switch (frame.verb) {
    case Verb::hello:
    case Verb::welcome:
      out.put(frame.pid);
      break;
    case Verb::hold:
    case Verb::release:
      put_names(out, frame.names);
      break;
    case Verb::report:
      out.put(frame.first);
      break;
    case Verb::done:
      break;
    case Verb::refused:
      out.put_text(std::string_view(frame.reason).substr(0, kMostReason));
      break;
    case Verb::clients:
      check(frame.clients.size() <= kMostClients, ErrorKind::invalid_argument, kCall,
            frame.clients.size(), " clients do not fit one message");
      out.put(frame.first);
      out.put(frame.total);
      out.put(static_cast<std::uint32_t>(frame.clients.size()));
      for (const Client& client : frame.clients) put_client(out, client);
      break;
  }
  return out.take();
}

Frame decode(std::span<const std::byte> bytes) {
  check(bytes.size() <= kMaxFrame, ErrorKind::malformed, kCall, bytes.size(),
        " bytes are too many");
  WireReader in(bytes);
  check(in.get<std::uint32_t>() == kMagic, ErrorKind::malformed, kCall, "not one of shm-manager's");
  const auto version = in.get<std::uint16_t>();
  check(version == kVersion, ErrorKind::version_mismatch, kCall, "the other side speaks version ",
        version, ", this one version ", kVersion);
  Frame frame;
  const auto verb = in.get<std::uint8_t>();
  frame.verb = static_cast<Verb>(verb);
  switch (frame.verb) {
    case Verb::hello:
    case Verb::welcome:
      frame.pid = in.get<std::uint32_t>();
      break;
    case Verb::hold:
    case Verb::release:
      frame.names = get_names(in);
      break;
    case Verb::report:
      frame.first = in.get<std::uint32_t>();
      break;
    case Verb::done:
      break;
    case Verb::refused:
      frame.reason = in.get_text();
      check(frame.reason.size() <= kMostReason, ErrorKind::malformed, kCall, "a reason of ",
            frame.reason.size(), " bytes");
      break;
    case Verb::clients:
      frame.first = in.get<std::uint32_t>();
      frame.total = in.get<std::uint32_t>();
      frame.clients = get_clients(in);
      break;
    default:
      check(false, ErrorKind::malformed, kCall, "verb ", int{verb}, " is unknown");
  }
  in.expect_end();
  return frame;
}

}  // namespace shoal::manager
