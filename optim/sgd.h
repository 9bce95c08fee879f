#pragma once

#include <vector>

#include "shoal/autograd/module.h"

namespace shoal::optim {

// PyTorch's SGD: with gradient g, parameter w, velocity v, one step is
//   g += weight_decay w
//   v  = g at the first step, later v = momentum v + (1 - dampening) g    (if momentum is not 0)
//   g  = g + momentum v if nesterov, else v                               (if momentum is not 0)
//   w -= lr g
// Source: PyTorch's documentation of torch.optim.SGD.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Stochastic gradient descent over parameters, in place. It holds the parameters, not copies; where
// they lie in shared memory a step writes there, without a lock. The velocity is private to this
// object. For one thread at a time.
class Sgd {
 public:
  // A module is stepped in one pass over its flat parameters, which this makes if it must.
  // Throws Error(invalid_argument) for a negative or non-finite lr, momentum or weight_decay, and
  // for nesterov without momentum or with dampening.
  Sgd(autograd::Module& module, const SgdOptions& options);
  Sgd(std::vector<autograd::Variable> parameters, const SgdOptions& options);

  // Parameters that have no gradient yet are left alone.
  void step();
  void zero_grad();

  // For the steps from now on; at least 0 and finite, or Error(invalid_argument).
  void set_lr(double lr);

  [[nodiscard]] const SgdOptions& options() const { return options_; }

 private:
  struct Slot {
    autograd::Variable parameter;
    Tensor velocity;
  };
  std::vector<Slot> slots_;
  SgdOptions options_;
};

}  // namespace shoal::optim
