#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/autograd/module.h"
#include "shoal/runtime/tensor/random.h"

// Modules as text, since a C++ object cannot be sent to another process: Name(argument, …), where
// an argument is an integer, a number with a point or exponent, or again a module. What
// Module::spec() writes, make_module reads.
namespace shoal::autograd {

struct ModuleSpec {
  std::string name;
  // The arguments of each kind, in order.
  std::vector<std::int64_t> numbers;
  std::vector<ModuleSpec> modules;
  std::vector<double> reals{};  // written with a point or an exponent
};

// Builds a module of one kind.
using ModuleFactory = std::function<std::shared_ptr<Module>(const ModuleSpec& spec,
                                                            Generator& generator, DType dtype)>;

// Throws Error(malformed) that points at the place; at most 64 levels deep.
[[nodiscard]] ModuleSpec parse_module_spec(std::string_view text);

// The modules of modules.h and vision_modules.h are known; others by register_module_factory,
// called before any thread or worker builds modules (from an initialiser of a namespace-scope
// constant, say). Throws Error(invalid_argument) for an unknown name or arguments that do not fit
// it.
[[nodiscard]] std::shared_ptr<Module> make_module(const ModuleSpec& spec, Generator& generator,
                                                  DType dtype = DType::f32);
[[nodiscard]] std::shared_ptr<Module> make_module(std::string_view text, Generator& generator,
                                                  DType dtype = DType::f32);
// Always true, so that an initialiser may call it. Throws Error(invalid_argument) if the name is
// taken or the factory empty.
bool register_module_factory(std::string name, ModuleFactory factory);

}  // namespace shoal::autograd
