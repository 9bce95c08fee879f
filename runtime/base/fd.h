#pragma once

#include <utility>

namespace shoal {

// Owns a file descriptor and closes it. Every descriptor that Shoal opens is close-on-exec.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // Gives the descriptor to the caller, who closes it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // Closes what is owned and owns `fd` instead.
  void reset(int fd = -1) noexcept;

  // A second descriptor of the same open file.
  [[nodiscard]] Fd duplicate() const;

 private:
  int fd_ = -1;
};

}  // namespace shoal
