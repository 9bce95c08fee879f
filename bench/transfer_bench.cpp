#include "rows.h"
#include "shoal/runtime/ipc/message.h"
#include "shoal/runtime/process/launch.h"

// Tensors that another process gets by one queue and sends back by another: what queues do all day.
namespace shoal::bench {
namespace {

// Until both processes know the memory, and each has had its first of everything.
constexpr int kWarmUp = 200;

constexpr std::int64_t kTensors = 100;

class EchoProcess {
 public:
  void round_trip(const Message& message) {
    there_.put(message);
    benchmark::DoNotOptimize(back_.get_message());
  }
  // The queue is closed for its reader, whoever else has its put end.
  ~EchoProcess() { there_.close(); }
  EchoProcess() = default;
  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;

 private:
  TensorQueue there_, back_;
  ProcessContext process_ = launch_forked([this](Worker&) {
    while (const auto message = there_.get_message()) back_.put(*message);
    return 0;
  });
};

void round_trip(benchmark::State& state, const Message& message) {
  EchoProcess echo;
  for (int i = 0; i < kWarmUp; ++i) echo.round_trip(message);
  for (auto _ : state) echo.round_trip(message);
}

Message make_message(std::int64_t tensors, std::int64_t nbytes, SharingStrategy strategy) {
  Message message;
  for (std::int64_t i = 0; i < tensors; ++i)
    message.tensors.push_back(Tensor::full_shared({nbytes}, 1, DType::u8, strategy));
  return message;
}

}  // namespace

void add_transfer_rows() {
  for (const SharingStrategy strategy : get_all_sharing_strategies()) {
    for (const Size size : kRoundTripSizes) {
      add_row(shoal_row("round_trip", size.name, strategy),
              [=](auto& state) { round_trip(state, make_message(1, size.nbytes, strategy)); });
    }
    // A model's state: tensors that have nothing in common but the message.
    add_row(shoal_row("state_dict", "100x1KiB", strategy),
            [=](auto& state) { round_trip(state, make_message(kTensors, 1024, strategy)); });
  }
}

}  // namespace shoal::bench
