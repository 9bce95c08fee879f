#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/manager_protocol.h"

namespace shoal::tools {

// The manager that programs of this user would find, as it answers.
struct ManagerView {
  enum class State {
    listening,    // and it answers
    absent,       // nobody listens there
    off,          // SHOAL_MANAGER=off
    unreachable,  // somebody may listen, but no conversation comes about
  };
  State state = State::absent;
  std::string socket{};                // empty if none is used, or SHOAL_MANAGER makes no sense
  std::optional<ErrorKind> trouble{};  // unreachable: why
  std::string reason{};                // the same in words, from anybody
  std::uint32_t pid = 0;
  std::vector<manager::Client> clients{};  // without this process
};

[[nodiscard]] std::string_view to_string(ManagerView::State state);

// Never throws an Error: what goes wrong is part of the view.
[[nodiscard]] ManagerView look_at_manager(Deadline deadline);

}  // namespace shoal::tools
