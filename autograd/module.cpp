#include "shoal/autograd/module.h"

#include <algorithm>
#include <ostream>
#include <unordered_set>
#include <utility>

#include "shoal/runtime/base/error.h"

// A module's names, parameters and state; module_flat.cpp has what concerns their place in memory.
namespace shoal::autograd {

std::string Module::spec() const {
  throw Error({.kind = ErrorKind::unsupported,
               .call = "Module::spec",
               .reason = "this kind of module cannot be written as text",
               .remedy = "Override spec() and register a factory for it"});
}

std::vector<std::pair<std::string, Variable>> Module::named_parameters() const {
  auto named = own_parameters_;
  for (const auto& [prefix, module] : submodules_)
    for (const auto& [name, parameter] : module->named_parameters())
      named.emplace_back(concat(prefix, '.', name), parameter);
  return named;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> parameters;
  std::unordered_set<const void*> seen;
  for (auto& [name, parameter] : named_parameters())
    if (seen.insert(parameter.id()).second) parameters.push_back(parameter);
  return parameters;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Variable& parameter : parameters()) count += parameter.value().numel();
  return count;
}

void Module::zero_grad() const {
  for (const Variable& parameter : parameters()) parameter.zero_grad();
}

StateDict Module::state_dict() const {
  StateDict state;
  for (const auto& [name, parameter] : named_parameters()) state.emplace(name, parameter.value());
  return state;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> all{this};
  for (const auto& [name, module] : submodules_)
    for (Module* within : module->modules()) all.push_back(within);
  return all;
}

void Module::train(bool on) {
  is_training_ = on;
  for (const auto& [name, module] : submodules_) module->train(on);
}

LoadReport Module::load_state_dict(const StateDict& state, bool strict) const {
  const StateDict own = state_dict();
  LoadReport report;
  std::string wrong;
  const auto add = [&wrong](const std::string& what) {
    wrong += (wrong.empty() ? "" : ", ") + what;
  };
  for (const auto& [name, value] : own) {
    const auto given = state.find(name);
    if (given == state.end() || !given->second.defined()) {
      report.missing.push_back(name);
      if (strict) add("missing '" + name + "'");
    } else if (given->second.shape() != value.shape()) {
      add(concat("'", name, "' is ", value.shape(), " here and ", given->second.shape(), " there"));
    }
  }
  for (const auto& [name, value] : state) {
    if (own.count(name) != 0) continue;
    report.unexpected.push_back(name);
    if (strict) add("unexpected '" + name + "'");
  }
  check(wrong.empty(), ErrorKind::invalid_argument, "Module::load_state_dict", wrong);
  for (const auto& [name, value] : own) {
    const auto given = state.find(name);
    if (given != state.end() && given->second.defined()) value.copy_(given->second);
  }
  return report;
}

void Module::check_free(const std::string& name, const char* call) const {
  check(!name.empty() && name.find('.') == std::string::npos, ErrorKind::invalid_argument, call,
        "'", name, "' is no name: it is empty or has a dot");
  const auto has = [&name](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& e) { return e.first == name; });
  };
  check(!has(own_parameters_) && !has(submodules_), ErrorKind::invalid_argument, call, "'", name,
        "' is registered already");
}

Variable Module::register_parameter(std::string name, const Tensor& value) {
  constexpr const char* kCall = "Module::register_parameter";
  check(value.defined(), ErrorKind::invalid_argument, kCall, "'", name, "' is undefined");
  return register_parameter(std::move(name), Variable(value.contiguous(), true));
}

Variable Module::register_parameter(std::string name, Variable parameter) {
  constexpr const char* kCall = "Module::register_parameter";
  check_free(name, kCall);
  check(parameter.is_leaf() && parameter.requires_grad(), ErrorKind::invalid_argument, kCall, "'",
        name, "' is not a leaf that requires a gradient");
  own_parameters_.emplace_back(std::move(name), parameter);
  return parameter;
}

void Module::register_module(std::string name, std::shared_ptr<Module> module) {
  constexpr const char* kCall = "Module::register_module";
  check_free(name, kCall);
  check(module != nullptr && module.get() != this, ErrorKind::invalid_argument, kCall, "'", name,
        "' is ", module == nullptr ? "no module" : "this module itself");
  submodules_.emplace_back(std::move(name), std::move(module));
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.spec(); }

}  // namespace shoal::autograd
