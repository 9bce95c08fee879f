#include "shoal/runtime/shm/process_token.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/orphans.h"
#include "shoal/runtime/shm/shm_directory.h"

namespace shoal {
namespace {

struct Mine {
  std::mutex mutex;
  TokenId id = 0;
  int fd = -1;  // a plain number: a forked child closes it in a handler where nothing may throw
};

Mine& mine() {
  static Mine* state = [] {
    // Around fork the mutex is held, so the child finds it free and the state whole. The child must
    // not keep the parent's lock alive.
    ::pthread_atfork([] { mine().mutex.lock(); }, [] { mine().mutex.unlock(); },
                     [] {
                       if (mine().fd >= 0) ::close(mine().fd);
                       mine().fd = -1;
                       mine().id = 0;
                       mine().mutex.unlock();
                     });
    return new Mine;  // outlives every static that still releases memory at exit
  }();
  return *state;
}

flock whole_file(short type) {
  flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Locked before it is named: no token is ever seen unlocked while its owner lives.
void make_token(Mine& state) {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(retire_my_token); });
  Fd file = shm_directory::create_unnamed();
  flock lock = whole_file(F_WRLCK);
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) < 0) throw_errno("fcntl(F_OFD_SETLK)", "token");
  TokenId id = 0;
  do {
    if (::getrandom(&id, sizeof id, 0) != sizeof id) throw_errno("getrandom");
  } while (id == 0 || !shm_directory::link(file, token_file_name(id)));
  state.id = id;
  state.fd = file.release();
}

}  // namespace

std::string token_file_name(TokenId token) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(token));
  return concat(shm_directory::kTokenPrefix, digits);
}

TokenId my_token() {
  bool made = false;
  TokenId id = 0;
  {
    const std::scoped_lock hold(mine().mutex);
    made = mine().id == 0;
    if (made) make_token(mine());
    id = mine().id;
  }
  // Whatever earlier processes left, the first to come tidies up.
  if (made) reap_orphans();
  return id;
}

TokenId my_token_if_any() noexcept {
  const std::scoped_lock hold(mine().mutex);
  return mine().id;
}

int my_token_fd() {
  (void)my_token();
  const std::scoped_lock hold(mine().mutex);
  return mine().fd;
}

bool token_is_alive(TokenId token) noexcept {
  try {
    const Fd file = shm_directory::open(token_file_name(token));
    // Its owner removed it, or somebody reaped it after its death.
    if (!file) return errno != ENOENT;
    flock lock = whole_file(F_WRLCK);
    if (::fcntl(file.get(), F_OFD_GETLK, &lock) < 0) return true;
    return lock.l_type != F_UNLCK;
  } catch (const std::exception&) {
    return true;
  }
}

void retire_my_token() noexcept {
  {
    const std::scoped_lock hold(mine().mutex);
    if (mine().id == 0) return;
    if (mine().fd >= 0) ::close(mine().fd);
    mine().fd = -1;
  }
  try {
    reap_orphans();
  } catch (const std::exception&) {
    // The next process to come reaps.
  }
}

}  // namespace shoal
