#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shoal/runtime/base/fd.h"

// Private to this folder.
namespace shoal {

// Starts this program again with these words as its command line. It has standard streams, and of
// our descriptors `kept`, by the same numbers; streams[i].first, if it is open, becomes its
// descriptor streams[i].second. `added` goes into its environment, before or instead of what is in
// ours. Throws Error.
[[nodiscard]] pid_t spawn_program(std::vector<std::string> words,
                                  const std::vector<const Fd*>& kept,
                                  const std::map<std::string, std::string>& added,
                                  std::initializer_list<std::pair<const Fd*, int>> streams = {});

// The same open file by a number above those of the standard streams, which a new process has in
// their place. Throws Error.
[[nodiscard]] Fd above_streams(Fd fd);

// A pidfd of a child just started; a process that cannot be watched is not kept. Throws Error.
[[nodiscard]] Fd watch_child(pid_t pid);

}  // namespace shoal
