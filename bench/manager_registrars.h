#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/fd.h"
#include "shoal/runtime/shm/manager_client.h"
#include "shoal/runtime/shm/segment.h"

namespace shoal::bench {

// One kind of manager, from the side of a client that is connected to it.
class Registrar {
 public:
  Registrar() = default;
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;
  virtual ~Registrar() = default;
  // Tells the manager of the name of a segment that is going to be made.
  virtual void add() = 0;
  // Makes a segment for each that was added, of 64 bytes, held until this process ends.
  virtual void make_all() = 0;
};

// None at all: what the clients cost by themselves.
class NoRegistrar : public Registrar {
 public:
  void add() override {}
  void make_all() override {}
};

// As every program that uses file_system: SHOAL_MANAGER says where the manager is.
class ShoalRegistrar : public Registrar {
 public:
  explicit ShoalRegistrar(std::string prefix) : prefix_(std::move(prefix)) {
    forget(manager::hold_new(prefix_));  // connects
  }
  void add() override { added_.push_back(manager::hold_new(prefix_)); }
  // Under names of their own, registered once more.
  void make_all() override {
    for (const SegmentId& id : added_) {
      forget(id);
      segments_.push_back(std::make_unique<Segment>(64, 1, SharingStrategy::file_system));
    }
  }

 private:
  void forget(const SegmentId& id) { manager::forget(segment_name(prefix_, id)); }

  std::string prefix_;
  std::vector<SegmentId> added_;
  std::vector<std::unique_ptr<Segment>> segments_;
};

// As libshm (torch/lib/libshm/core.cpp and the allocator in aten/src/ATen/MapAllocator.cpp, version
// 1.13): one message for each, then a file that is made long enough and mapped.
class TorchRegistrar : public Registrar {
 public:
  TorchRegistrar(const std::string& path, std::string prefix) : prefix_(std::move(prefix)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw_errno("connect", path);
  }
  void add() override {
    names_.push_back(concat('/', prefix_, ::getpid(), '_', names_.size()));
    struct {
      pid_t pid;
      char free;
      char filename[60];
    } request{};
    request.pid = ::getpid();
    std::ranges::copy(names_.back(), request.filename);
    std::array<char, 2> answer{};
    if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request ||
        ::recv(socket_.get(), answer.data(), answer.size(), MSG_WAITALL) != 2 ||
        std::memcmp(answer.data(), "OK", 2) != 0)
      throw_errno("torch_shm_manager");
  }
  void make_all() override {
    for (const std::string& name : names_) {
      const Fd file{::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)};
      if (!file || ::posix_fallocate(file.get(), 0, 4096) != 0 ||
          ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) == MAP_FAILED)
        throw_errno("shm_open", name);
    }
  }

 private:
  Fd socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string prefix_;
  std::vector<std::string> names_;
};

}  // namespace shoal::bench
