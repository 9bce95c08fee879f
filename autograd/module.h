#pragma once

#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/autograd/variable.h"
#include "shoal/runtime/shm/sharing_strategy.h"

namespace shoal::autograd {

// Parameters by name; names are paths such as "0.weight", as the field writes them.
using StateDict = std::map<std::string, Tensor>;

// What load_state_dict found on one side only.
struct LoadReport {
  std::vector<std::string> missing;     // the module has them, the state has not
  std::vector<std::string> unexpected;  // the other way round
};

// All of a module's parameters as two vectors: `values` W[P] and `grads` G[P]. Each parameter
// starts at a multiple of 64 bytes; the gaps are zero and stay so. P counts the gaps. From
// zero_grad() to the end of backward() the gradients are those calls' own: what others write there
// is lost.
struct FlatParameters {
  Tensor values;
  Tensor grads;
};

// A function with parameters. Derive from it, register parameters and submodules in the
// constructor, override forward. Owned by shared_ptr. For use by one thread at a time; separate
// modules may be used by separate threads.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  [[nodiscard]] virtual Variable forward(const Variable& x) = 0;

  // How to build it again elsewhere, e.g. "Sequential(Linear(784, 128), ReLU(), Linear(128, 10))";
  // module_spec.h reads it. The default throws Error(unsupported), which keeps a module out of
  // those training modes that rebuild it in other processes.
  [[nodiscard]] virtual std::string spec() const;

  // In order of registration, submodules after own ones. A tied parameter, registered more than
  // once, stands here under each of its names.
  [[nodiscard]] std::vector<std::pair<std::string, Variable>> named_parameters() const;
  // Each once.
  [[nodiscard]] std::vector<Variable> parameters() const;
  // Elements of all parameters, without gaps.
  [[nodiscard]] std::int64_t parameter_count() const;

  // This one and all within, each before those within it; good while they live.
  [[nodiscard]] std::vector<Module*> modules();

  // How modules such as Dropout, and all within, behave from now on: as in training, which is how
  // they begin, or as in use.
  void train(bool on = true);
  void eval() { train(false); }
  [[nodiscard]] bool is_training() const { return is_training_; }

  // Zeroes every gradient.
  void zero_grad() const;

  // Moves all parameters and their gradients into two flat tensors and leaves each a view there;
  // values are kept, gradients start as zeros. Later calls return the same tensors, unless
  // parameters were bound elsewhere meanwhile. All parameters must have one dtype, and there must
  // be one: Error(invalid_argument) otherwise.
  FlatParameters flatten();

  // As flatten, into given tensors, each of flat_size() elements: values are taken from
  // `flat.values`, gradients from `flat.grads`, what the parameters held is forgotten. So a worker
  // joins shared parameters. With flat.grads undefined, private ones are made, of zeros.
  void flatten_into(FlatParameters flat);
  [[nodiscard]] std::int64_t flat_size() const;

  // Flattens, then moves the values into shared memory, in place. Gradients stay private.
  void share_memory(SharingStrategy strategy = get_sharing_strategy());
  [[nodiscard]] bool is_shared() const;

  // The parameters themselves, not copies.
  [[nodiscard]] StateDict state_dict() const;
  // Copies in place, so that sharing and flatness survive. If `strict`, names must be the same set;
  // shapes must be alike in any case: Error(invalid_argument) lists what is missing, unexpected or
  // different, and nothing has changed. Returns the names on one side only.
  LoadReport load_state_dict(const StateDict& state, bool strict = true) const;

 protected:
  // Returns the variable it registered. Names are not empty, free of dots and different within a
  // module: Error(invalid_argument) otherwise.
  Variable register_parameter(std::string name, const Tensor& value);
  // A parameter that is registered already, here or in another module, to tie the two.
  Variable register_parameter(std::string name, Variable parameter);
  void register_module(std::string name, std::shared_ptr<Module> module);

 private:
  void check_free(const std::string& name, const char* call) const;
  [[nodiscard]] bool is_flat() const;

  std::vector<std::pair<std::string, Variable>> own_parameters_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> submodules_;
  FlatParameters flat_;
  bool is_training_ = true;
};

// The spec.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace shoal::autograd
