#include "shoal/autograd/module_spec.h"

#include <map>
#include <utility>

#include "shoal/autograd/modules.h"
#include "shoal/autograd/vision_modules.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {
namespace {

// How many integers, and whether modules and one real are taken as well.
struct Takes {
  std::size_t least = 0, most = 0;
  bool modules = false;
  bool real = false;
};

void check_arguments(const ModuleSpec& spec, const Takes& takes) {
  const std::size_t integers = spec.numbers.size(), reals = spec.reals.size();
  check(integers >= takes.least && integers <= takes.most &&
            (takes.modules || spec.modules.empty()) && reals <= (takes.real ? 1 : 0),
        ErrorKind::invalid_argument, "make_module", spec.name, " takes ", takes.least,
        takes.most > takes.least ? concat(" to ", takes.most) : "", " integers, ",
        takes.real ? "a real" : "no reals", " and ", takes.modules ? "any" : "no",
        " modules, given ", integers, ", ", reals, " and ", spec.modules.size());
}

// Argument i, or `otherwise` where it was left out.
std::int64_t number_at(const ModuleSpec& spec, std::size_t i, std::int64_t otherwise) {
  return i < spec.numbers.size() ? spec.numbers[i] : otherwise;
}

template <class M>
std::shared_ptr<Module> make_plain(const ModuleSpec& spec, Generator&, DType) {
  check_arguments(spec, {});
  return std::make_shared<M>();
}

std::shared_ptr<Module> make_linear(const ModuleSpec& spec, Generator& generator, DType dtype) {
  check_arguments(spec, {.least = 2, .most = 2});
  return std::make_shared<Linear>(spec.numbers[0], spec.numbers[1], generator, dtype);
}

std::shared_ptr<Module> make_conv2d(const ModuleSpec& spec, Generator& generator, DType dtype) {
  check_arguments(spec, {.least = 3, .most = 5});
  return std::make_shared<Conv2d>(
      spec.numbers[0], spec.numbers[1], spec.numbers[2], generator,
      ops::Conv2dOptions{.stride = number_at(spec, 3, 1), .padding = number_at(spec, 4, 0)}, dtype);
}

std::shared_ptr<Module> make_max_pool2d(const ModuleSpec& spec, Generator&, DType) {
  check_arguments(spec, {.least = 1, .most = 2});
  return std::make_shared<MaxPool2d>(spec.numbers[0], number_at(spec, 1, 0));
}

template <class M>
std::shared_ptr<Module> make_dropout(const ModuleSpec& spec, Generator& generator, DType) {
  check_arguments(spec, {.most = 1, .real = true});
  check(spec.numbers.size() + spec.reals.size() == 1, ErrorKind::invalid_argument, "make_module",
        spec.name, " takes one number");
  const double p = spec.reals.empty() ? static_cast<double>(spec.numbers[0]) : spec.reals[0];
  return std::make_shared<M>(p, generator);
}

std::shared_ptr<Module> make_embedding(const ModuleSpec& spec, Generator& generator, DType dtype) {
  check_arguments(spec, {.least = 2, .most = 3});
  return std::make_shared<Embedding>(spec.numbers[0], spec.numbers[1], generator,
                                     number_at(spec, 2, 0) != 0, dtype);
}

std::shared_ptr<Module> make_embedding_bag(const ModuleSpec& spec, Generator& generator,
                                           DType dtype) {
  check_arguments(spec, {.least = 2, .most = 4});
  return std::make_shared<EmbeddingBag>(spec.numbers[0], spec.numbers[1], generator,
                                        number_at(spec, 3, 1) != 0 ? BagMode::mean : BagMode::sum,
                                        number_at(spec, 2, 0) != 0, dtype);
}

std::shared_ptr<Module> make_sequential(const ModuleSpec& spec, Generator& generator, DType dtype) {
  check_arguments(spec, {.modules = true});
  std::vector<std::shared_ptr<Module>> modules;
  for (const ModuleSpec& module : spec.modules)
    modules.push_back(make_module(module, generator, dtype));
  return std::make_shared<Sequential>(std::move(modules));
}

// Written while statics are initialised, only read once threads and workers run.
std::map<std::string, ModuleFactory>& factories() {
  static std::map<std::string, ModuleFactory> instance{{"Conv2d", make_conv2d},
                                                       {"Dropout", make_dropout<Dropout>},
                                                       {"Dropout2d", make_dropout<Dropout2d>},
                                                       {"Embedding", make_embedding},
                                                       {"EmbeddingBag", make_embedding_bag},
                                                       {"Flatten", make_plain<Flatten>},
                                                       {"Linear", make_linear},
                                                       {"MaxPool2d", make_max_pool2d},
                                                       {"ReLU", make_plain<ReLU>},
                                                       {"Sequential", make_sequential},
                                                       {"Sigmoid", make_plain<Sigmoid>},
                                                       {"Tanh", make_plain<Tanh>}};
  return instance;
}

}  // namespace

std::shared_ptr<Module> make_module(const ModuleSpec& spec, Generator& generator, DType dtype) {
  const auto found = factories().find(spec.name);
  if (found == factories().end()) {
    std::string known;
    for (const auto& [name, factory] : factories()) known += " " + name;
    throw Error({.kind = ErrorKind::invalid_argument,
                 .call = "make_module",
                 .subject = spec.name,
                 .reason = "no module is registered by this name, only" + known,
                 .remedy = "Call register_module_factory for it in every program that needs it"});
  }
  return found->second(spec, generator, dtype);
}

std::shared_ptr<Module> make_module(std::string_view text, Generator& generator, DType dtype) {
  return make_module(parse_module_spec(text), generator, dtype);
}

bool register_module_factory(std::string name, ModuleFactory factory) {
  constexpr const char* kCall = "register_module_factory";
  check(factory != nullptr, ErrorKind::invalid_argument, kCall, "no factory for '", name, "'");
  const auto [place, is_new] = factories().emplace(std::move(name), std::move(factory));
  check(is_new, ErrorKind::invalid_argument, kCall, "'", place->first, "' is registered already");
  return true;
}

}  // namespace shoal::autograd
