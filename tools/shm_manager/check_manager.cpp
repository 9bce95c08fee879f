#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "shoal/runtime/base/error.h"
#include "shoal/tools/shm_manager/checkup.h"
#include "shoal/tools/shm_manager/snapshot.h"

namespace shoal::tools {
namespace {

// By the rule that a manager follows before it listens (manager_address.h, prepare_folder).
std::optional<Finding> check_folder(const std::string& socket, uid_t uid) {
  const std::string folder = socket.substr(0, socket.rfind('/'));
  struct stat about {};
  if (::lstat(folder.c_str(), &about) != 0) {
    if (errno == ENOENT) return std::nullopt;  // a manager makes it
    return Finding{Level::problem, "manager_folder",
                   concat(folder, " cannot be looked at: ", std::strerror(errno)),
                   "Set SHOAL_MANAGER to a path in a folder of your own"};
  }
  std::string fault;
  if (!S_ISDIR(about.st_mode)) {
    fault = "is no folder";
  } else if (about.st_uid != uid && about.st_uid != 0) {
    fault = "belongs to " + user_name(about.st_uid);
  } else if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    fault = "can be written to by others";
  }
  if (fault.empty())
    return Finding{Level::ok, "manager_folder", concat(folder, " is safe from other users"), {}};
  return Finding{Level::problem, "manager_folder",
                 concat(folder, " ", fault, ": somebody could stand in for the manager"),
                 "Remove it, or set SHOAL_MANAGER to a path in a folder of your own"};
}

Finding absent(const ManagerView& view) {
  constexpr const char* kRemedy =
      "Programs with named segments start one of their own. For one that stays: shm-manager serve, "
      "or the systemd unit";
  const bool left = ::access(view.socket.c_str(), F_OK) == 0;
  return {Level::note, "manager",
          left ? concat("Nobody listens at ", view.socket, ", which a dead manager has left")
               : concat("No manager runs; none listens at ", view.socket),
          kRemedy};
}

Finding unreachable(const ManagerView& view) {
  if (view.trouble == ErrorKind::version_mismatch)
    return {Level::problem, "manager", view.reason,
            "Restart the manager from the installation that the programs use"};
  if (view.trouble == ErrorKind::timed_out)
    return {Level::problem, "manager", view.reason,
            "Look at its log; if it hangs, end it: no segment is lost by that"};
  if (view.socket.empty())  // SHOAL_MANAGER itself is wrong
    return {Level::problem, "manager", view.reason, "Correct the environment, or unset it"};
  return {Level::problem, "manager", view.reason,
          concat("See who listens: ss -xlp src ", view.socket)};
}

}  // namespace

Findings check_manager(const ManagerView& view, uid_t uid) {
  if (view.state == ManagerView::State::off)
    return {{Level::note, "manager",
             "No manager is used (SHOAL_MANAGER=off): segments of killed programs stay until "
             "somebody reaps them",
             "Unset SHOAL_MANAGER, or run shm-manager reap now and then"}};
  Findings findings;
  if (view.state == ManagerView::State::listening) {
    findings.push_back({Level::ok,
                        "manager",
                        concat("Manager ", view.pid, " answers at ", view.socket,
                               "; clients: ", view.clients.size()),
                        {}});
  } else {
    findings.push_back(view.state == ManagerView::State::absent ? absent(view) : unreachable(view));
  }
  if (view.socket.empty()) return findings;
  if (auto folder = check_folder(view.socket, uid)) findings.push_back(*std::move(folder));
  return findings;
}

}  // namespace shoal::tools
