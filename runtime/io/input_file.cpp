#include "shoal/runtime/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "shoal/runtime/base/error.h"

namespace shoal {

InputFile::InputFile(std::string_view call, std::string path)
    : call_(call), path_(std::move(path)) {
  // Without O_NONBLOCK a pipe that nobody writes to would block here, before it can be refused.
  fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd_) throw_errno(concat(call_, ": open"), path_);
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw_errno(concat(call_, ": fstat"), path_);
  if (!S_ISREG(status.st_mode))
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = call_,
                 .subject = path_,
                 .reason = S_ISDIR(status.st_mode) ? "is a directory, a file is expected"
                                                   : "is no regular file",
                 .remedy = S_ISDIR(status.st_mode) ? "Name the file inside it" : ""});
  nbytes_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::span<std::byte> bytes) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(fd_.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(concat(call_, ": read"), path_);
    if (count == 0)
      throw Error({.kind = ErrorKind::malformed,
                   .call = call_,
                   .subject = path_,
                   .reason = concat("ends where ", bytes.size() - filled,
                                    " more bytes are expected; it was ", nbytes_,
                                    " bytes long when it was opened"),
                   .remedy = "Was it cut while it was read?"});
    filled += static_cast<std::size_t>(count);
  }
}

}  // namespace shoal
