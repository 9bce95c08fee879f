#pragma once

#include <cstddef>
#include <string>

#include "shoal/runtime/shm/process_token.h"

namespace shoal {

// The name under /dev/shm of a token's file.
[[nodiscard]] std::string token_file_name(TokenId token);

// Removes from /dev/shm what only dead processes held: named segments all of whose holders are
// gone, and their tokens. Touches only files of this user that carry Shoal's names, and keeps
// whatever it cannot read or judge. Any process may call it at any time. Returns how many segments
// it removed.
std::size_t reap_orphans();

}  // namespace shoal
