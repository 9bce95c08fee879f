#pragma once

#include <string>
#include <string_view>

#include "shoal/runtime/ipc/channel.h"

namespace shoal {

// What a launched process is given.
struct Worker {
  int rank = 0;        // 0 … world_size - 1
  int world_size = 1;  // how many were launched together
  Channel& parent;     // the other end is ProcessContext::channel(rank)
  Message args;        // what launch was given for this rank
  int threads = 1;     // how many threads it should compute with (LaunchOptions)
  // What the launcher gets from ProcessContext::result once the entry has returned 0. Private
  // tensors move into shared memory; they outlive the worker.
  Message result{};
};

// What a launched process runs. Its result becomes the exit code: 0 is success. An exception ends
// the process and is thrown in the launcher, as ProcessRaised.
using Entry = int (*)(Worker&);

// A started program cannot be handed a closure, so an entry has a name that it finds again there:
//
//   SHOAL_ENTRY(greet)
//   int greet(shoal::Worker& worker) { … }
//
// The name is unique in the program. To be found it must be linked in: an entry in a static library
// needs its file referenced from elsewhere, which passing it to launch() does.
#define SHOAL_ENTRY(name)                                                                     \
  int name(::shoal::Worker&);                                                                 \
  namespace {                                                                                 \
  [[maybe_unused]] const bool name##_is_registered = ::shoal::register_entry(#name, &(name)); \
  }

bool register_entry(std::string_view name, Entry entry);

// Throw Error(invalid_argument) for what was never registered, or registered twice differently.
[[nodiscard]] std::string entry_name(Entry entry);
[[nodiscard]] Entry find_entry(std::string_view name);

}  // namespace shoal
