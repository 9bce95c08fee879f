#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shoal {

// What kind of trouble an Error reports; programs branch on this, people read the message.
enum class ErrorKind {
  invalid_argument,  // the caller asked for something that makes no sense
  no_space,          // memory or a file system is full
  limit_reached,     // a limit of the system or of Shoal: descriptors, mappings, holders
  not_found,         // a file, name or entry that should be there is not
  malformed,         // bytes from a file, a socket or another process do not parse
  version_mismatch,  // the other side speaks another version
  timed_out,         // a deadline passed
  peer_gone,         // the process on the other side has ended
  worker_failed,     // a launched process raised an error or was killed
  unsupported,       // meaningful, but not offered here
  system,            // any other failed system call
};

[[nodiscard]] std::string_view to_string(ErrorKind kind);

// Everything Shoal throws. The message reads "call: subject: reason. remedy".
class Error : public std::runtime_error {
 public:
  struct Parts {
    ErrorKind kind = ErrorKind::system;
    std::string call{};     // the function that refused, ours or the kernel's
    std::string subject{};  // what it was applied to: a name, a path, a shape
    std::string reason{};   // what is wrong
    std::string remedy{};   // how to mend it; empty when the reason says enough
    int errno_value = 0;    // for failed system calls
  };

  explicit Error(Parts parts);

  [[nodiscard]] ErrorKind kind() const { return parts_.kind; }
  [[nodiscard]] const std::string& call() const { return parts_.call; }
  [[nodiscard]] const std::string& subject() const { return parts_.subject; }
  [[nodiscard]] const std::string& reason() const { return parts_.reason; }
  [[nodiscard]] const std::string& remedy() const { return parts_.remedy; }
  [[nodiscard]] int errno_value() const { return parts_.errno_value; }

 private:
  Parts parts_;
};

// Throws the Error for the current errno. ENOSPC and ENOMEM become no_space, EMFILE, ENFILE
// and EFBIG limit_reached, ENOENT not_found, EPIPE and ECONNRESET peer_gone, everything else
// system.
[[noreturn]] void throw_errno(std::string_view call, std::string_view subject = {},
                              std::string_view remedy = {});
[[noreturn]] void throw_errno(int errno_value, std::string_view call, std::string_view subject = {},
                              std::string_view remedy = {});

// The parts, streamed one after the other.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Throws an Error of `call`, text of any kind, unless `ok`. Texts are put together only then.
template <class Call, class... Parts>
void check(bool ok, ErrorKind kind, const Call& call, const Parts&... reason) {
  if (ok) [[likely]]
    return;
  throw Error({.kind = kind, .call = std::string(call), .reason = concat(reason...)});
}

}  // namespace shoal
