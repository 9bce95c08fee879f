#pragma once

#include <string>

#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/manager_address.h"
#include "shoal/tools/shm_manager/serve_options.h"

namespace shoal::tools {

// The listening socket, whoever made it.
struct Listener {
  Fd socket;
  std::string path;              // empty where its file is not ours to remove
  manager::FileIdentity file{};  // at the path
};

// systemd's, the inherited one, or a new one where the options or the environment say. Throws Error
// where another manager listens already.
[[nodiscard]] Listener find_listener(const ServeOptions& options);

}  // namespace shoal::tools
