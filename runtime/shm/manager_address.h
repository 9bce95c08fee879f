#pragma once

#include <sys/types.h>

#include <string>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/fd.h"

// Where shm-manager is to be found.
namespace shoal::manager {

// The path of the socket: $SHOAL_MANAGER if it is set; else kSystemSocket, where the system's
// service listens; else $XDG_RUNTIME_DIR/shoal/manager.sock; else, where there is no such folder of
// this user's or the path is too long for a socket, /tmp/shoal-<uid>/manager.sock.
// Throws Error(invalid_argument) if $SHOAL_MANAGER is no absolute path, or too long for a socket.
[[nodiscard]] std::string socket_path();

inline constexpr const char* kSystemSocket = "/run/shoal/manager.sock";

// Whether $SHOAL_MANAGER is "off": named segments then go without.
[[nodiscard]] bool is_off();

// The longest path that a socket can have.
[[nodiscard]] std::size_t most_path_bytes();

// Makes the socket's own folder, 0700, if it is missing. Throws Error(unsupported) if it is there
// and belongs to somebody else or others may write to it: they could stand in for the manager.
void prepare_folder(const std::string& socket_path);

// Connects; no Fd if nobody listens there (no file, or one that a dead manager left). Throws Error,
// of kind timed_out if the manager does not get round to accepting in time.
[[nodiscard]] Fd connect_to(const std::string& socket_path, Deadline deadline);

// Listens there, and is the only one to: of any number of processes that try at the same time one
// gets the socket, the others no Fd. A socket that a dead manager left is replaced, a file of any
// other kind is not. Throws Error.
[[nodiscard]] Fd listen_at(const std::string& socket_path, Deadline deadline);

// Which file stands at a path now; two that are equal are one.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;  // 0: none
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
[[nodiscard]] FileIdentity file_at(const std::string& socket_path) noexcept;

// Removes the socket's file if it is still that one: another may listen there by now.
void remove_socket(const std::string& socket_path, const FileIdentity& file) noexcept;

// For a manager that wants to end: stops listening and removes its file, unless somebody is
// waiting to be accepted: false, and nothing has changed. Throws Error.
[[nodiscard]] bool stop_listening(Fd& listener, const std::string& socket_path,
                                  const FileIdentity& file, Deadline deadline);

}  // namespace shoal::manager
