#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include "shoal/runtime/base/unix_socket.h"
#include "shoal/runtime/ipc/channel.h"
#include "shoal/runtime/process/launch.h"

// What sharing costs, beside the raw system calls that it cannot do without.
namespace shoal {
namespace {

SharingStrategy strategy_of(const benchmark::State& state) {
  return static_cast<SharingStrategy>(state.range(1));
}

// Sends every message back until the channel closes.
int echo(Worker& worker) {
  while (auto message = worker.parent.receive()) worker.parent.send(*message);
  return 0;
}

void create_shared(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(
        Tensor::zeros_shared({state.range(0)}, DType::u8, strategy_of(state)).data_ptr());
  state.SetLabel(std::string(to_string(strategy_of(state))));
}
BENCHMARK(create_shared)->ArgsProduct({{4, 4096, 1 << 20, 1 << 26}, {0, 1}});

// There and back, the tensor known on both sides: what a queue does all day.
void tensor_round_trip(benchmark::State& state) {
  ProcessContext peer = launch_forked(echo, {});
  const Tensor tensor = Tensor::zeros_shared({state.range(0)}, DType::u8, strategy_of(state));
  const Message message{.tensors = {tensor}};
  for (auto _ : state) {
    peer.channel(0).send(message);
    benchmark::DoNotOptimize(peer.channel(0).receive());
  }
  state.SetLabel(std::string(to_string(strategy_of(state))));
}
BENCHMARK(tensor_round_trip)->ArgsProduct({{4, 1 << 20, 1 << 26}, {0, 1}})->UseRealTime();

// The floor: one descriptor there and back, by bare packets.
void descriptor_round_trip(benchmark::State& state) {
  ProcessContext peer = launch_forked(
      [](Worker& worker) {
        std::array<std::byte, 64> buffer;
        std::vector<Fd> fds;
        std::size_t nbytes = 0;
        while (receive_packet(worker.parent.fd(), buffer, nbytes, fds, kForever) ==
               Transfer::done) {
          const int fd = fds.at(0).get();
          (void)send_packet(worker.parent.fd(), std::span(buffer).first(nbytes), std::span(&fd, 1),
                            kForever);
          fds.clear();
        }
        return 0;
      },
      {});
  const Fd memory{::memfd_create("bench", MFD_CLOEXEC)};
  const int fd = memory.get();
  std::array<std::byte, 64> buffer{};
  std::vector<Fd> fds;
  for (auto _ : state) {
    std::size_t nbytes = 0;
    (void)send_packet(peer.channel(0).fd(), buffer, std::span(&fd, 1), kForever);
    (void)receive_packet(peer.channel(0).fd(), buffer, nbytes, fds, kForever);
    fds.clear();
  }
}
BENCHMARK(descriptor_round_trip)->UseRealTime();

}  // namespace
}  // namespace shoal

BENCHMARK_MAIN();
