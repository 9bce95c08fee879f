#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "rows.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/process/launch.h"

// The floor: the system calls alone, as a program would make them that needs no more than this.
namespace shoal::bench {
namespace {

// Memory that other processes could map, and its mapping here. Its end does not count.
class RawMemory {
 public:
  explicit RawMemory(std::int64_t nbytes)
      : nbytes_(static_cast<std::size_t>(nbytes)), memory_(::memfd_create("bench", MFD_CLOEXEC)) {
    if (!memory_ || ::ftruncate(memory_.get(), nbytes) < 0) throw_errno("memfd_create");
    address_ = ::mmap(nullptr, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
    if (address_ == MAP_FAILED) throw_errno("mmap");
  }
  ~RawMemory() { ::munmap(address_, nbytes_); }
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address_); }

 private:
  std::size_t nbytes_;
  Fd memory_;
  void* address_ = nullptr;
};

void create(benchmark::State& state, std::int64_t nbytes) {
  for (auto _ : state) {
    std::optional<RawMemory> memory;
    time_iteration(state, [&] {
      memory.emplace(nbytes);
      volatile std::byte* bytes = memory->data();
      for (std::int64_t at = 0; at < nbytes; at += kPageBytes) bytes[at] = std::byte{1};
    });
  }
}

void share(benchmark::State& state, std::int64_t nbytes) {
  const std::vector<std::byte> source(static_cast<std::size_t>(nbytes), std::byte{1});
  for (auto _ : state) {
    std::optional<RawMemory> memory;
    time_iteration(state, [&] {
      memory.emplace(nbytes);
      std::memcpy(memory->data(), source.data(), source.size());
    });
  }
}

// One packet of 64 bytes with one descriptor, ready to be sent or received.
class Packet {
 public:
  Packet() {
    header_.msg_iov = &part_;
    header_.msg_iovlen = 1;
  }
  void send(int socket, int fd) {
    prepare();
    cmsghdr* c = CMSG_FIRSTHDR(&header_);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (::sendmsg(socket, &header_, MSG_NOSIGNAL) < 0) throw_errno("sendmsg");
  }
  // The descriptor; none at the end of the connection.
  [[nodiscard]] Fd receive(int socket) {
    prepare();
    const ssize_t got = ::recvmsg(socket, &header_, MSG_CMSG_CLOEXEC);
    if (got < 0) throw_errno("recvmsg");
    if (got == 0) return Fd{};
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header_)), sizeof fd);
    return Fd{fd};
  }

 private:
  void prepare() {
    header_.msg_control = control_.data();
    header_.msg_controllen = control_.size();
  }

  std::array<std::byte, 64> bytes_{};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control_{};
  iovec part_{.iov_base = bytes_.data(), .iov_len = bytes_.size()};
  msghdr header_{};
};

void round_trip(benchmark::State& state) {
  std::pair<Fd, Fd> ends = make_socket_pair();
  ProcessContext echo = launch_forked([&](Worker&) {
    ends.first.reset();
    Packet packet;
    while (const Fd fd = packet.receive(ends.second.get()))
      packet.send(ends.second.get(), fd.get());
    return 0;
  });
  ends.second.reset();
  const Fd memory{::memfd_create("bench", MFD_CLOEXEC)};
  Packet packet;
  for (auto _ : state) {
    packet.send(ends.first.get(), memory.get());
    benchmark::DoNotOptimize(packet.receive(ends.first.get()).get());
  }
  ends.first.reset();
  echo.join();
}

}  // namespace

void add_raw_memory_rows() {
  for (const Size size : kCreateSizes) {
    add_timed_row("raw/create/" + std::string(size.name),
                  [=](auto& state) { create(state, size.nbytes); });
  }
  for (const Size size : kShareSizes) {
    add_timed_row("raw/share/" + std::string(size.name),
                  [=](auto& state) { share(state, size.nbytes); });
  }
}

void add_raw_transfer_rows() { add_row("raw/round_trip", round_trip); }

}  // namespace shoal::bench
