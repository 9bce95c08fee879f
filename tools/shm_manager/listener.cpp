#include "shoal/tools/shm_manager/listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/tools/shm_manager/supervisor.h"

namespace shoal::tools {
namespace {

constexpr double kPatienceS = 2;  // for another process that is just here, at the socket's folder

}  // namespace

Listener find_listener(const ServeOptions& options) {
  if (Fd passed = socket_from_supervisor()) return {.socket = std::move(passed), .path = {}};
  std::string path = options.socket;
  if (path.empty()) {
    check(!manager::is_off(), ErrorKind::invalid_argument, "serve",
          "SHOAL_MANAGER=off leaves no place for the socket. Name one: --socket PATH");
    path = manager::socket_path();
  }
  if (options.listen_fd >= 0) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(options.listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0)
      throw_errno("getsockopt", concat("--listen-fd ", options.listen_fd));
    check(listens != 0, ErrorKind::invalid_argument, "serve", "--listen-fd does not listen");
    ::fcntl(options.listen_fd, F_SETFD, FD_CLOEXEC);
    return {Fd{options.listen_fd}, path, manager::file_at(path)};
  }
  manager::prepare_folder(path);
  Fd made = manager::listen_at(path, in_seconds(kPatienceS));
  if (!made)
    throw Error({.kind = ErrorKind::system,
                 .call = "serve",
                 .subject = path,
                 .reason = "a manager listens there already",
                 .remedy = "shm-manager status shows it; or choose another --socket"});
  return {std::move(made), path, manager::file_at(path)};
}

}  // namespace shoal::tools
