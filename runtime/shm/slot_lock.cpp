#include "shoal/runtime/shm/slot_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

struct flock range(short type, off_t start, off_t length) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;  // 0: to the end of all bytes
  return lock;
}

}  // namespace

Fd reopen(int fd) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  Fd again{::open(path, O_RDWR | O_CLOEXEC)};
  if (!again) throw_errno("open", path, "Sharing memory needs /proc, and the owner's permission");
  return again;
}

bool try_lock_slot(int fd, Slot slot) {
  struct flock lock = range(F_WRLCK, slot, 1);
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw_errno("fcntl(F_OFD_SETLK)", "a shared segment");
}

void unlock_slot(int fd, Slot slot) noexcept {
  struct flock lock = range(F_UNLCK, slot, 1);
  ::fcntl(fd, F_OFD_SETLK, &lock);
}

bool slot_is_locked(int fd, Slot slot) noexcept {
  struct flock lock = range(F_WRLCK, slot, 1);
  return ::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool any_slot_is_locked(int fd) noexcept {
  struct flock lock = range(F_WRLCK, 0, 0);
  return ::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool try_lock_all_slots(int fd) noexcept {
  struct flock lock = range(F_WRLCK, 0, 0);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

}  // namespace shoal
