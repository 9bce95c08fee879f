#include "shoal/optim/sgd.h"

#include <cmath>

#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

const SgdOptions& checked(const SgdOptions& options) {
  const auto require = [](bool ok, const char* name, double value, const char* wanted) {
    check(ok, ErrorKind::invalid_argument, "Sgd", name, " is ", value, "; it must be ", wanted);
  };
  const auto finite = [&](const char* name, double value) {
    require(std::isfinite(value) && value >= 0, name, value, "a number of at least 0");
  };
  finite("lr", options.lr);
  finite("momentum", options.momentum);
  finite("weight_decay", options.weight_decay);
  require(std::isfinite(options.dampening), "dampening", options.dampening, "a number");
  check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
        ErrorKind::invalid_argument, "Sgd", "nesterov needs a momentum above 0 and no dampening");
  return options;
}

// The flat parameters as one leaf.
std::vector<autograd::Variable> flat_leaf(autograd::Module& module) {
  const autograd::FlatParameters flat = module.flatten();
  autograd::Variable leaf(flat.values, true);
  leaf.bind(flat.values, flat.grads);
  return {leaf};
}

}  // namespace

Sgd::Sgd(autograd::Module& module, const SgdOptions& options) : Sgd(flat_leaf(module), options) {}

Sgd::Sgd(std::vector<autograd::Variable> parameters, const SgdOptions& options)
    : options_(checked(options)) {
  for (autograd::Variable& parameter : parameters) {
    check(parameter.value().is_contiguous(), ErrorKind::invalid_argument, "Sgd",
          "a parameter of shape ", parameter.shape(), " is not contiguous");
    slots_.push_back({.parameter = std::move(parameter), .velocity = {}});
  }
}

void Sgd::set_lr(double lr) {
  SgdOptions changed = options_;
  changed.lr = lr;
  options_ = checked(changed);
}

void Sgd::step() {
  for (Slot& slot : slots_) {
    const Tensor& w = slot.parameter.value();
    const Tensor& g = slot.parameter.grad();
    if (!g.defined()) continue;
    const bool first = !slot.velocity.defined();
    if (first && options_.momentum != 0) slot.velocity = Tensor::empty(w.shape(), w.dtype());
    w.device().sgd(w.dtype(),
                   {.lr = options_.lr,
                    .momentum = options_.momentum,
                    .dampening = options_.dampening,
                    .weight_decay = options_.weight_decay,
                    .nesterov = options_.nesterov,
                    .first = first},
                   w.data_ptr(), g.data_ptr(),
                   slot.velocity.defined() ? slot.velocity.data_ptr() : nullptr, w.numel());
  }
}

void Sgd::zero_grad() {
  for (const Slot& slot : slots_) slot.parameter.zero_grad();
}

}  // namespace shoal::optim
