#include "shoal/runtime/shm/manager_address.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shoal/runtime/base/error.h"

namespace shoal::manager {
namespace {

constexpr const char* kVariable = "SHOAL_MANAGER";
constexpr const char* kFile = "manager.sock";

// As many as connect while the manager looks the other way; the kernel lowers it to its own limit.
constexpr int kBacklog = 4096;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  check(path.size() <= most_path_bytes(), ErrorKind::invalid_argument, "shm-manager's socket", path,
        " is longer than the ", most_path_bytes(), " bytes that a socket's path may have");
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  return address;
}

Fd make_socket() {
  Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (!socket)
    throw_errno("socket", "to shm-manager", "Raise the limit of open descriptors: `ulimit -n`");
  return socket;
}

std::string folder_of(const std::string& socket_path) {
  return socket_path.substr(0, std::max<std::size_t>(1, socket_path.rfind('/')));
}

// Held for a few system calls at a time, by those who change what stands at the path. A lock on the
// folder, so that no file for it is left behind; the kernel drops it with the process.
class PathLock {
 public:
  PathLock(const std::string& socket_path, Deadline deadline) {
    const std::string folder = folder_of(socket_path);
    folder_ = Fd{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!folder_) throw_errno("open", folder);
    // The kernel has no such wait with a deadline, so look again, a millisecond apart.
    while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw_errno("flock", folder);
      if (deadline.expired())
        throw Error({.kind = ErrorKind::timed_out,
                     .call = "flock",
                     .subject = folder,
                     .reason = "another process has held it all the time",
                     .remedy = "If it is stopped, let it go on or end it"});
      ::poll(nullptr, 0, 1);
    }
  }

 private:
  Fd folder_;
};

// A dead one's file, or one for root alone, must not keep users from a manager of their own.
bool system_manager_listens() {
  if (::access(kSystemSocket, W_OK) != 0) return false;
  const sockaddr_un address = address_of(kSystemSocket);
  const Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  // EAGAIN: it is busy.
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
             0 ||
         errno == EAGAIN;
}

}  // namespace

std::size_t most_path_bytes() { return sizeof(sockaddr_un::sun_path) - 1; }

bool is_off() { return variable(kVariable) == "off"; }

std::string socket_path() {
  std::string chosen = variable(kVariable);
  if (!chosen.empty()) {
    check(chosen.front() == '/' && chosen.size() <= most_path_bytes(), ErrorKind::invalid_argument,
          kVariable, "\"", chosen, "\" is neither \"off\" nor an absolute path of at most ",
          most_path_bytes(), " bytes");
    return chosen;
  }
  if (system_manager_listens()) return kSystemSocket;
  const std::string runtime = variable("XDG_RUNTIME_DIR");
  struct stat about {};
  if (!runtime.empty() && runtime.front() == '/' && ::stat(runtime.c_str(), &about) == 0 &&
      S_ISDIR(about.st_mode) && about.st_uid == ::geteuid()) {
    std::string path = concat(runtime, "/shoal/", kFile);
    if (path.size() <= most_path_bytes()) return path;
  }
  return concat("/tmp/shoal-", ::geteuid(), '/', kFile);
}

void prepare_folder(const std::string& socket_path) {
  const std::string folder = folder_of(socket_path);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno("mkdir", folder, "Set SHOAL_MANAGER to a path in a folder of your own");
  struct stat about {};
  if (::lstat(folder.c_str(), &about) != 0) throw_errno("lstat", folder);
  const bool owned = about.st_uid == ::geteuid() || about.st_uid == 0;
  const bool open = (about.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (!S_ISDIR(about.st_mode) || !owned || open)
    throw Error({.kind = ErrorKind::unsupported,
                 .call = "shm-manager's socket",
                 .subject = folder,
                 .reason = "it is not a folder that only this user or root can write to",
                 .remedy = "Remove it, or set SHOAL_MANAGER to a path in a folder of your own"});
}

Fd connect_to(const std::string& socket_path, Deadline deadline) {
  const sockaddr_un address = address_of(socket_path);
  Fd socket = make_socket();
  // What a connection to a full queue waits for the room in it.
  const int ms =
      std::max(1, std::min(deadline.is_never() ? 3'600'000 : deadline.poll_timeout(), 3'600'000));
  const timeval wait{.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
         0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return Fd{};
    if (errno == EAGAIN || deadline.expired())
      throw Error({.kind = ErrorKind::timed_out,
                   .call = "connect",
                   .subject = socket_path,
                   .reason = "shm-manager does not accept connections",
                   .remedy = "Look at its log; shm-manager doctor says more"});
    if (errno != EINTR) throw_errno("connect", socket_path);
  }
  return socket;
}

Fd listen_at(const std::string& socket_path, Deadline deadline) {
  const sockaddr_un address = address_of(socket_path);
  const PathLock lock(socket_path, deadline);
  if (connect_to(socket_path, deadline)) return Fd{};
  // Nobody listens, and nobody but us may begin to.
  struct stat about {};
  if (::lstat(socket_path.c_str(), &about) == 0) {
    check(S_ISSOCK(about.st_mode), ErrorKind::unsupported, "shm-manager's socket", socket_path,
          " is a file of another kind, so it stays");
    if (::unlink(socket_path.c_str()) != 0 && errno != ENOENT) throw_errno("unlink", socket_path);
  }
  Fd socket = make_socket();
  // The file that bind makes has this mode from the start.
  if (::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw_errno("bind", socket_path);
  if (::listen(socket.get(), kBacklog) != 0) throw_errno("listen", socket_path);
  return socket;
}

FileIdentity file_at(const std::string& socket_path) noexcept {
  struct stat about {};
  if (::lstat(socket_path.c_str(), &about) != 0) return {};
  return {about.st_dev, about.st_ino};
}

void remove_socket(const std::string& socket_path, const FileIdentity& file) noexcept {
  if (file.inode != 0 && file_at(socket_path) == file) ::unlink(socket_path.c_str());
}

bool stop_listening(Fd& listener, const std::string& socket_path, const FileIdentity& file,
                    Deadline deadline) {
  const PathLock lock(socket_path, deadline);
  if (wait_ready(listener.get(), POLLIN, in_ms(0))) return false;
  // Somebody may connect even now; the connection is reset then, and to try again finds no file.
  remove_socket(socket_path, file);
  listener.reset();
  return true;
}

}  // namespace shoal::manager
