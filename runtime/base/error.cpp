#include "shoal/runtime/base/error.h"

#include <cerrno>
#include <cstring>

namespace shoal {
namespace {

std::string message_of(const Error::Parts& parts) {
  std::string text = parts.call;
  for (const auto* part : {&parts.subject, &parts.reason}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += *part;
  }
  if (!parts.remedy.empty()) text += ". " + parts.remedy;
  return text;
}

ErrorKind kind_of(int errno_value) {
  switch (errno_value) {
    case ENOSPC:
    case ENOMEM:
    case EDQUOT:
      return ErrorKind::no_space;
    case EMFILE:
    case ENFILE:
    case EFBIG:
      return ErrorKind::limit_reached;
    case ENOENT:
      return ErrorKind::not_found;
    case EPIPE:
    case ECONNRESET:
      return ErrorKind::peer_gone;
    default:
      return ErrorKind::system;
  }
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::no_space:
      return "no space";
    case ErrorKind::limit_reached:
      return "limit reached";
    case ErrorKind::not_found:
      return "not found";
    case ErrorKind::malformed:
      return "malformed";
    case ErrorKind::version_mismatch:
      return "version mismatch";
    case ErrorKind::timed_out:
      return "timed out";
    case ErrorKind::peer_gone:
      return "peer gone";
    case ErrorKind::worker_failed:
      return "worker failed";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::system:
      return "system";
  }
  return "unknown";
}

Error::Error(Parts parts) : std::runtime_error(message_of(parts)), parts_(std::move(parts)) {}

void throw_errno(std::string_view call, std::string_view subject, std::string_view remedy) {
  throw_errno(errno, call, subject, remedy);
}

void throw_errno(int errno_value, std::string_view call, std::string_view subject,
                 std::string_view remedy) {
  const char* name = ::strerrorname_np(errno_value);
  throw Error({.kind = kind_of(errno_value),
               .call = std::string(call),
               .subject = std::string(subject),
               .reason = concat(::strerrordesc_np(errno_value) ? ::strerrordesc_np(errno_value)
                                                               : "unknown error",
                                " (", name ? name : "?", ")"),
               .remedy = std::string(remedy),
               .errno_value = errno_value});
}

}  // namespace shoal
