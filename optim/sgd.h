#pragma once

#include <cstddef>
#include <vector>

#include "shoal/autograd/module.h"

namespace shoal::optim {

// PyTorch's SGD: with gradient g, parameter w, velocity v, one step is
//   g  = -g                                                               (if maximize)
//   g += weight_decay w
//   v  = g at the first step, later v = momentum v + (1 - dampening) g    (if momentum is not 0)
//   g  = g + momentum v if nesterov, else v                               (if momentum is not 0)
//   w -= lr g
// each operation rounded by itself, so that the numbers are those of the formula. Source: PyTorch's
// documentation of torch.optim.SGD.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

// Parameters that are stepped alike.
struct ParameterGroup {
  std::vector<autograd::Variable> parameters;
  SgdOptions options;
};

// Stochastic gradient descent over parameters, in place. It holds the parameters, not copies; where
// they lie in shared memory a step writes there, without a lock. For one thread at a time.
//
// Of a sparse gradient (Variable::sparse_grad) a step touches only the rows that are in it: those
// of the parameter, and with momentum those of the velocity, which of other rows neither moves them
// nor decays. Rows of one index are added up first if there is momentum, else stepped one by one.
// weight_decay and dampening would touch every row, so step() refuses them with a sparse gradient,
// before it has changed anything: Error(unsupported).
class Sgd {
 public:
  // A module is made flat. Throws Error(invalid_argument) for a negative or non-finite lr, momentum
  // or weight_decay, for nesterov without momentum or with dampening, for a parameter that is no
  // leaf, not contiguous, or in two groups.
  Sgd(autograd::Module& module, const SgdOptions& options);
  Sgd(std::vector<autograd::Variable> parameters, const SgdOptions& options);
  explicit Sgd(std::vector<ParameterGroup> groups);

  // Parameters that have no gradient yet are left alone. A parameter that has both a sparse and a
  // dense gradient, or whose dense one somebody has asked for since zero_grad(), is stepped whole,
  // with the sum of both, which its dense gradient then is. A step counts as a change in place of
  // all that shares the parameter's storage: in a flat module, of all parameters.
  void step();
  void zero_grad();

  // Of all groups; or of one: for the steps from now on; at least 0 and finite, or
  // Error(invalid_argument).
  void set_lr(double lr);
  void set_lr(std::size_t group, double lr);

  // Of the first group, which is the only one unless groups were given.
  [[nodiscard]] const SgdOptions& options() const { return groups_.front().options; }
  [[nodiscard]] const SgdOptions& options(std::size_t group) const;
  [[nodiscard]] std::size_t group_count() const { return groups_.size(); }

  // The velocities, one for each parameter that has momentum, in order; of zeros before the first
  // step. Private to this object, unless set_velocities gave others.
  [[nodiscard]] std::vector<Tensor> velocities() const;
  // Takes these to be the velocities, shared with whoever shares the tensors. There is no other
  // state. By default each of several processes that train together keeps its own, as PyTorch's
  // workers do; shared, all push one ball, and updates may be lost in it as in the parameters.
  // Every step is then a later one: dampening applies to the first as well. Throws
  // Error(invalid_argument) for other shapes, dtypes or counts.
  void set_velocities(const std::vector<Tensor>& velocities);

  // While on, a step may happen between another thread's forward() and backward() over the same
  // parameters: Hogwild by declaration, so it does not count as a change in place that backward()
  // would refuse.
  void set_hogwild(bool on) { hogwild_ = on; }

 private:
  struct Slot {
    autograd::Variable parameter;
    Tensor velocity{};        // undefined without momentum
    bool is_stepped = false;  // the velocity is more than zeros
    bool is_sparse = false;   // gradients are; then no step touches more than their rows
  };
  struct Group {
    std::vector<Slot> slots;
    SgdOptions options;
  };
  void check_can_step() const;
  void step_sparse(Slot& slot, const SgdOptions& options) const;

  std::vector<Group> groups_;
  bool hogwild_ = false;
};

}  // namespace shoal::optim
