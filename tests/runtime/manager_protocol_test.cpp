#include "shoal/runtime/shm/manager_protocol.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/wire.h"
#include "shoal/runtime/tensor/random.h"
#include "support/expect_error.h"

// What clients and shm-manager say to each other.
namespace shoal::manager {
namespace {

using Bytes = std::vector<std::byte>;

// 32 digits.
const std::string kDigits = "0123456789abcdef0123456789abcdef";

std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = "shoal-segment-" + kDigits;
    name.replace(name.size() - 4, 4, std::to_string(1000 + i));
    names.push_back(name);
  }
  return names;
}

Client a_client(std::uint32_t pid) {
  return {.pid = pid,
          .uid = 1000,
          .connected_s = std::uint64_t{1} << 40,
          .messages = ~std::uint64_t{0},
          .holds = 7};
}

// One of each, and those that are as large as they may be.
std::vector<Frame> frames_of_all_verbs() {
  return {
      {.verb = Verb::hello, .pid = 4'000'000'000},
      {.verb = Verb::hold, .names = names(1)},
      {.verb = Verb::hold, .names = names(kMostNames)},
      {.verb = Verb::release, .names = names(3)},
      {.verb = Verb::report, .first = 512},
      {.verb = Verb::welcome, .pid = 1},
      {.verb = Verb::done},
      {.verb = Verb::refused, .reason = ""},
      {.verb = Verb::refused, .reason = std::string(kMostReason, 'x')},
      {.verb = Verb::clients, .first = 3, .total = 3},
      {.verb = Verb::clients, .total = 2, .clients = {a_client(5), a_client(6)}},
      {.verb = Verb::clients,
       .first = 512,
       .total = 2000,
       .clients = std::vector<Client>(kMostClients, a_client(9))},
  };
}

void expect_same(const Frame& a, const Frame& b) {
  EXPECT_EQ(a.verb, b.verb);
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_EQ(a.names, b.names);
  EXPECT_EQ(a.first, b.first);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.total, b.total);
  ASSERT_EQ(a.clients.size(), b.clients.size());
  for (std::size_t i = 0; i < a.clients.size(); ++i) {
    EXPECT_EQ(a.clients[i].pid, b.clients[i].pid);
    EXPECT_EQ(a.clients[i].uid, b.clients[i].uid);
    EXPECT_EQ(a.clients[i].connected_s, b.clients[i].connected_s);
    EXPECT_EQ(a.clients[i].messages, b.clients[i].messages);
    EXPECT_EQ(a.clients[i].holds, b.clients[i].holds);
  }
}

// What every message starts with.
WireWriter start_of(std::uint8_t verb, std::uint16_t version = kVersion,
                    std::uint32_t magic = kMagic) {
  WireWriter out;
  out.put(magic);
  out.put(version);
  out.put(verb);
  return out;
}

WireWriter start_of(Verb verb) { return start_of(static_cast<std::uint8_t>(verb)); }

// What a client that does not look at names could send.
Bytes unchecked_hold(const std::vector<std::string>& names) {
  WireWriter out = start_of(Verb::hold);
  out.put(static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) out.put_text(name);
  return out.take();
}

void expect_malformed(const Bytes& bytes) {
  expect_error(ErrorKind::malformed, [&] { (void)decode(bytes); });
}

TEST(ManagerProtocol, EveryVerbArrivesAsItWasSent) {
  for (const Frame& frame : frames_of_all_verbs()) {
    const Bytes bytes = encode(frame);
    EXPECT_LE(bytes.size(), kMaxFrame);
    expect_same(decode(bytes), frame);
    EXPECT_EQ(encode(decode(bytes)), bytes);
  }
}

TEST(ManagerProtocol, FieldsOfOtherVerbsDoNotTravel) {
  const Frame done = decode(encode({.verb = Verb::done, .pid = 7, .reason = "none"}));
  expect_same(done, {.verb = Verb::done});
}

TEST(ManagerProtocol, AMessageThatIsCutOffIsRefusedWhereverItIsCut) {
  for (const Frame& frame : frames_of_all_verbs()) {
    const Bytes whole = encode(frame);
    for (std::size_t size = 0; size < whole.size(); ++size)
      expect_malformed(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

TEST(ManagerProtocol, BytesThatFollowAMessageAreRefused) {
  for (const Frame& frame : frames_of_all_verbs()) {
    Bytes bytes = encode(frame);
    bytes.push_back(std::byte{0});
    expect_malformed(bytes);
  }
}

TEST(ManagerProtocol, MoreBytesThanAMessageMayHaveAreRefused) {
  expect_malformed(Bytes(kMaxFrame + 1));
}

TEST(ManagerProtocol, SomebodyElsesBytesAreRefused) {
  WireWriter out = start_of(static_cast<std::uint8_t>(Verb::done), kVersion, kMagic + 1);
  expect_malformed(out.take());
}

TEST(ManagerProtocol, AnotherVersionIsRefusedNamingBoth) {
  for (const std::uint16_t version : {0, kVersion + 1, 65535}) {
    // What follows the version may be anything.
    for (const std::uint8_t verb : {std::uint8_t{1}, std::uint8_t{200}}) {
      const Bytes bytes = start_of(verb, version).take();
      expect_error(
          ErrorKind::version_mismatch, [&] { (void)decode(bytes); }, concat("version ", version),
          concat("version ", kVersion));
    }
  }
}

TEST(ManagerProtocol, OnlyTheVerbsThereAreAreTaken) {
  for (int verb = 0; verb < 256; ++verb) {
    const bool known = (verb >= 1 && verb <= 4) || (verb >= 65 && verb <= 68);
    if (known) continue;
    WireWriter out = start_of(static_cast<std::uint8_t>(verb));
    const Bytes bytes = out.take();
    expect_error(
        ErrorKind::malformed, [&] { (void)decode(bytes); }, concat("verb ", verb));
  }
}

TEST(ManagerProtocol, NoneAndTooManyNamesAreRefusedOnBothSides) {
  for (const std::size_t count : {std::size_t{0}, kMostNames + 1}) {
    for (const Verb verb : {Verb::hold, Verb::release})
      expect_error(
          ErrorKind::invalid_argument, [&] { (void)encode({.verb = verb, .names = names(count)}); },
          concat(count, " names"));
    expect_malformed(unchecked_hold(names(count)));
  }
}

TEST(ManagerProtocol, ACountThatTheBytesCannotHoldTakesNoMemory) {
  for (const std::uint32_t count : {std::uint32_t{64}, std::uint32_t{512}, ~std::uint32_t{0}}) {
    for (const Verb verb : {Verb::hold, Verb::release}) {
      WireWriter out = start_of(verb);
      out.put(count);
      expect_malformed(out.take());
    }
    WireWriter out = start_of(Verb::clients);
    out.put(std::uint32_t{0});
    out.put(count);
    out.put(count);
    expect_malformed(out.take());
  }
}

TEST(ManagerProtocol, ALengthBeyondTheEndIsRefused) {
  for (const std::uint64_t length : {std::uint64_t{1}, ~std::uint64_t{0}}) {
    WireWriter out = start_of(Verb::refused);
    out.put(length);
    expect_malformed(out.take());
  }
}

TEST(ManagerProtocol, TooManyClientsAreRefusedOnBothSides) {
  const std::vector<Client> clients(kMostClients + 1);
  expect_error(ErrorKind::invalid_argument,
               [&] { (void)encode({.verb = Verb::clients, .clients = clients}); });
  WireWriter out = start_of(Verb::clients);
  out.put(std::uint32_t{0});
  out.put(std::uint32_t{513});
  out.put(static_cast<std::uint32_t>(clients.size()));
  out.append(Bytes(clients.size() * 32));
  expect_malformed(out.take());
}

TEST(ManagerProtocol, AReasonIsCutToWhatFitsAndALongerOneRefused) {
  const Frame frame = decode(encode({.verb = Verb::refused, .reason = std::string(5000, 'y')}));
  EXPECT_EQ(frame.reason, std::string(kMostReason, 'y'));
  WireWriter out = start_of(Verb::refused);
  out.put_text(std::string(kMostReason + 1, 'y'));
  expect_malformed(out.take());
}

TEST(ManagerProtocol, SegmentsOfAnyPrefixHaveNames) {
  for (const std::string prefix : {"shoal-", "a", "my.team_2-", "segment-"}) {
    EXPECT_TRUE(is_segment_name(prefix + "segment-" + kDigits)) << prefix;
    EXPECT_EQ(decode(unchecked_hold({prefix + "segment-" + kDigits})).names.size(), 1U) << prefix;
  }
  EXPECT_TRUE(is_segment_name(std::string(48, 'p') + "segment-" + kDigits));
}

TEST(ManagerProtocol, WhatIsNoSegmentsNameIsRefusedOnBothSides) {
  const std::string name = "shoal-segment-" + kDigits;
  const std::vector<std::string> bad = {
      "",
      "x",
      "..",
      "../x",
      "../" + name,
      "/dev/shm/" + name,
      "shoal-/segment-" + kDigits,
      "shoal-segment-XYZ",
      kDigits,
      "segment-" + kDigits,
      ".segment-" + kDigits,
      ".hidden-segment-" + kDigits,
      "shoal-Segment-" + kDigits,
      "shoal-segment_" + kDigits,
      name + "0",
      name.substr(0, name.size() - 1),
      name.substr(0, name.size() - 1) + "g",
      name.substr(0, name.size() - 1) + "A",
      name.substr(0, name.size() - 1) + '\0',
      name + '\n',
      " " + name,
      "sh al-segment-" + kDigits,
      std::string("shoal\0-segment-", 15) + kDigits,
      "sho\xc3\xa4l-segment-" + kDigits,
      std::string(49, 'p') + "segment-" + kDigits,
      std::string(4096, 'p') + "segment-" + kDigits,
  };
  for (const std::string& text : bad) {
    EXPECT_FALSE(is_segment_name(text)) << text;
    expect_malformed(unchecked_hold({text}));
    // One bad name spoils those beside it.
    expect_malformed(unchecked_hold({name, text}));
    expect_error(ErrorKind::invalid_argument,
                 [&] { (void)encode({.verb = Verb::release, .names = {text}}); });
  }
}

TEST(ManagerProtocol, DamagedMessagesAreRefusedOrMeanWhatTheySay) {
  const std::vector<Frame> frames = frames_of_all_verbs();
  Generator random(11);
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    Bytes bytes = encode(frames[random.below(frames.size())]);
    bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    try {
      EXPECT_EQ(encode(decode(bytes)), bytes);
    } catch (const Error& error) {
      ++refused;
      EXPECT_TRUE(error.kind() == ErrorKind::malformed ||
                  error.kind() == ErrorKind::version_mismatch)
          << error.what();
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace shoal::manager
