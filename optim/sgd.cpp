#include "shoal/optim/sgd.h"

#include <cmath>
#include <unordered_set>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/ops.h"

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

void check_parameter(const autograd::Variable& parameter) {
  check(parameter.is_leaf() && parameter.requires_grad(), ErrorKind::invalid_argument, "Sgd",
        "a parameter is not a leaf that requires a gradient");
  check(parameter.value().is_contiguous(), ErrorKind::invalid_argument, "Sgd",
        "a parameter of shape ", parameter.shape(), " is not contiguous");
}

std::vector<autograd::Variable> flat_parameters(autograd::Module& module) {
  (void)module.flatten();
  return module.parameters();
}

SgdStep device_step(const SgdOptions& options, bool first) {
  return {.lr = options.lr,
          .momentum = options.momentum,
          .dampening = options.dampening,
          .weight_decay = options.weight_decay,
          .nesterov = options.nesterov,
          .maximize = options.maximize,
          .first = first};
}

}  // namespace

Sgd::Sgd(autograd::Module& module, const SgdOptions& options)
    : Sgd(flat_parameters(module), options) {}

Sgd::Sgd(std::vector<autograd::Variable> parameters, const SgdOptions& options)
    : Sgd(std::vector<ParameterGroup>{{std::move(parameters), options}}) {}

Sgd::Sgd(std::vector<ParameterGroup> groups) {
  check(!groups.empty(), ErrorKind::invalid_argument, "Sgd", "there are no parameter groups");
  std::unordered_set<const void*> seen;
  for (ParameterGroup& given : groups) {
    Group group{.slots = {}, .options = checked(given.options)};
    for (autograd::Variable& parameter : given.parameters) {
      check_parameter(parameter);
      check(seen.insert(parameter.id()).second, ErrorKind::invalid_argument, "Sgd",
            "a parameter of shape ", parameter.shape(), " is given twice");
      Slot slot{.parameter = std::move(parameter)};
      if (group.options.momentum != 0)
        slot.velocity = Tensor::zeros(slot.parameter.shape(), slot.parameter.dtype());
      group.slots.push_back(std::move(slot));
    }
    groups_.push_back(std::move(group));
  }
}

const SgdOptions& Sgd::options(std::size_t group) const {
  check(group < groups_.size(), ErrorKind::invalid_argument, "Sgd::options", "there is no group ",
        group, " of ", groups_.size());
  return groups_[group].options;
}

void Sgd::set_lr(double lr) {
  for (std::size_t group = 0; group < groups_.size(); ++group) set_lr(group, lr);
}

void Sgd::set_lr(std::size_t group, double lr) {
  check(group < groups_.size(), ErrorKind::invalid_argument, "Sgd::set_lr", "there is no group ",
        group, " of ", groups_.size());
  SgdOptions changed = groups_[group].options;
  changed.lr = lr;
  groups_[group].options = checked(changed);
}

// Before anything is changed, so that who mends it can step again.
void Sgd::check_can_step() const {
  constexpr const char* kCall = "Sgd::step";
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) {
      const Tensor& w = slot.parameter.value();
      check(w.is_contiguous() && !w.is_read_only(), ErrorKind::invalid_argument, kCall,
            "a parameter of shape ", w.shape(), " is ",
            w.is_read_only() ? "read-only" : "not contiguous");
      const SparseRows& rows = slot.parameter.sparse_grad();
      if (rows.empty()) continue;
      rows.check_rows_of(w, kCall);
      check(group.options.weight_decay == 0 && group.options.dampening == 0, ErrorKind::unsupported,
            kCall, "weight_decay and dampening would touch every row of a parameter of shape ",
            w.shape(), ", whose gradient is sparse; set both to 0 for its group");
    }
  }
}

void Sgd::step() {
  check_can_step();
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) {
      const autograd::Variable& parameter = slot.parameter;
      const bool has_rows = !parameter.sparse_grad().empty();
      slot.is_sparse = slot.is_sparse || has_rows;
      if (slot.is_sparse && !parameter.has_grad()) {
        if (has_rows) step_sparse(slot, group.options);
      } else if (const Tensor& g = parameter.grad(); g.defined()) {
        if (has_rows) {
          parameter.sparse_grad().add_to(g, 1);
          parameter.sparse_grad().clear();
        }
        const Tensor& w = parameter.value();
        w.device().sgd(w.dtype(), device_step(group.options, !slot.is_stepped), w.data_ptr(),
                       g.data_ptr(), slot.velocity.defined() ? slot.velocity.data_ptr() : nullptr,
                       w.numel());
        slot.is_stepped = true;
        if (!hogwild_) w.storage()->count_write();
      }
    }
  }
}

void Sgd::step_sparse(Slot& slot, const SgdOptions& options) const {
  const Tensor& w = slot.parameter.value();
  SparseRows& rows = slot.parameter.sparse_grad();
  if (options.momentum == 0) {
    rows.add_to(w, options.maximize ? options.lr : -options.lr, !hogwild_);
    return;
  }
  // v starts as zeros, so that momentum v + g is g at a row's first step.
  rows.coalesce();
  const Tensor index = rows.index(), g = rows.rows();
  const SgdStep step = device_step(options, false);
  const std::int64_t d = w.size(1);
  const auto row = [&](const Tensor& of, std::int64_t r) {
    return static_cast<std::byte*>(of.data_ptr()) +
           static_cast<std::size_t>(r * d) * item_size(of.dtype());
  };
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const std::int64_t at = index.data<std::int64_t>()[i];
    w.device().sgd(w.dtype(), step, row(w, at), row(g, i), row(slot.velocity, at), d);
  }
  slot.is_stepped = true;
  if (!hogwild_) w.storage()->count_write();
}

void Sgd::zero_grad() {
  for (const Group& group : groups_)
    for (const Slot& slot : group.slots) slot.parameter.zero_grad();
}

std::vector<Tensor> Sgd::velocities() const {
  std::vector<Tensor> all;
  for (const Group& group : groups_)
    for (const Slot& slot : group.slots)
      if (slot.velocity.defined()) all.push_back(slot.velocity);
  return all;
}

void Sgd::set_velocities(const std::vector<Tensor>& velocities) {
  constexpr const char* kCall = "Sgd::set_velocities";
  std::vector<Slot*> slots;
  for (Group& group : groups_)
    for (Slot& slot : group.slots)
      if (slot.velocity.defined()) slots.push_back(&slot);
  check(velocities.size() == slots.size(), ErrorKind::invalid_argument, kCall, velocities.size(),
        " given for ", slots.size(), " parameters that have momentum");
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Tensor& given = velocities[i];
    const Tensor& own = slots[i]->velocity;
    check(given.defined() && given.shape() == own.shape() && given.dtype() == own.dtype() &&
              given.is_contiguous() && !given.is_read_only(),
          ErrorKind::invalid_argument, kCall, "velocity ", i, " must be a writable, contiguous ",
          to_string(own.dtype()), " ", own.shape());
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i]->velocity = velocities[i];
    slots[i]->is_stepped = true;
  }
}

}  // namespace shoal::optim
