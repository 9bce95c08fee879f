#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/tensor/sparse_rows.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal::autograd {

class Rule;

// A tensor that remembers how it was computed, so that backward() can say how it changes with the
// leaves it came from. A value: copies are the same variable.
//
// A leaf is made from a tensor; with requires_grad, backward() accumulates into its grad(). What
// functions (functions.h) return is no leaf; its grad is not kept. A Variable belongs to one thread
// at a time, separate graphs to separate threads; it has no way into a Channel: only tensors cross
// processes.
class Variable {
 public:
  Variable() = default;
  // Throws Error(invalid_argument) for a gradient of anything but f32 and f64.
  explicit Variable(Tensor value, bool requires_grad = false);

  [[nodiscard]] bool defined() const { return state_ != nullptr; }
  // Alike for copies of one variable, different for any two that live.
  [[nodiscard]] const void* id() const { return state_.get(); }
  [[nodiscard]] const Tensor& value() const;
  [[nodiscard]] const Shape& shape() const { return value().shape(); }
  [[nodiscard]] DType dtype() const { return value().dtype(); }

  // Whether backward() reaches it: asked for, or computed from one for which it was. Not so for an
  // undefined variable.
  [[nodiscard]] bool requires_grad() const;
  [[nodiscard]] bool is_leaf() const;

  // Of a leaf, with value()'s shape and dtype; undefined before the first backward(). Who asks may
  // write to it.
  [[nodiscard]] const Tensor& grad() const;
  // Whether there is one, other than zeros that zero_grad() made and that nobody has asked for by
  // grad() since. Who kept the tensor from before and writes to it goes unnoticed.
  [[nodiscard]] bool has_grad() const;
  // Whether value and gradient lie in these bytes, as bind() puts them there.
  [[nodiscard]] bool is_bound_to(const Tensor& value, const Tensor& grad) const;
  // The rows of a leaf's gradient that embeddings were asked to keep sparse, beside what grad()
  // has; empty if there are none.
  [[nodiscard]] SparseRows& sparse_grad() const;
  // Zeroes the gradient in place, where there is one, and empties the sparse one.
  void zero_grad() const;

  // Binds a leaf to other bytes of the same shape and dtype: a parameter to its place in a flat
  // tensor. `grad` is contiguous or undefined.
  void bind(Tensor value, Tensor grad) const;

  // The same value, cut from the graph.
  [[nodiscard]] Variable detach() const;

  // Adds d(this)/d(leaf) to the grad of every leaf that requires it. This variable must be a single
  // number, or `grad` must be given with its shape. Unless retain_graph, the graph is used up by
  // it: a second call throws Error(invalid_argument), as does a variable that needs no gradient,
  // and a value that was changed in place after a function had kept it for this. Runs in one
  // thread, visits every node once, and does not recurse, however deep the graph.
  void backward(const Tensor& grad = {}, bool retain_graph = false) const;

 private:
  friend class GradSlots;
  friend Variable record(const char* op, Tensor value,
                         std::vector<Variable, CacheAllocator<Variable>> inputs, Rule rule);
  struct State;
  std::shared_ptr<State> state_;
};

using Variables = std::vector<Variable, CacheAllocator<Variable>>;

// Gradients by input, in the order of the inputs; undefined where an input needs none.
using Grads = std::vector<Tensor, CacheAllocator<Tensor>>;

// Where backward() wants the gradients of a function's inputs. A rule may return new tensors and
// heed none of this; or, for a leaf that has a gradient, add to that at once and return it.
class GradSlots {
 public:
  struct Slot {
    Tensor grad{};     // contiguous; undefined if there is none to add to
    bool add = false;  // or else to be overwritten, whatever is in it
  };
  // Who asks for the slot of an input must write to it, where there is one, and return its tensor.
  [[nodiscard]] Slot operator[](std::size_t input) const;
  // Takes rows of a gradient for an input that is a leaf, and whose place in Grads stays undefined:
  // one for each of index, or, of index(b,n) and rows(b,d), each for a bag of n. False, and nothing
  // is taken, if it is no leaf.
  [[nodiscard]] bool add_sparse(std::size_t input, const Tensor& index, const Tensor& rows) const;

 private:
  friend class Variable;
  explicit GradSlots(const Variables& inputs) : inputs_(&inputs) {}
  [[nodiscard]] const Variable* leaf(std::size_t input) const;

  const Variables* inputs_;
  // Bits of inputs whose slot was asked for, or that gave rows; those of the first 64 only may.
  mutable std::uint64_t shown_ = 0, sparse_ = 0;
};

// How to turn the gradient of a result into those of its inputs: made from a callable that takes
// (const Tensor& dy), or (const Tensor& dy, const GradSlots& slots), and returns Grads.
class Rule {
 public:
  Rule() = default;
  template <class F>
  requires(!std::same_as<F, Rule>)
      Rule(F rule)  // NOLINT(google-explicit-constructor): as std::function
      : held_(new Held<F>(std::move(rule))) {}

  [[nodiscard]] bool defined() const { return held_ != nullptr; }
  Grads operator()(const Tensor& dy, const GradSlots& slots) const {
    return held_->apply(dy, slots);
  }

 private:
  struct Base : Cached {
    virtual ~Base() = default;
    virtual Grads apply(const Tensor& dy, const GradSlots& slots) = 0;
  };
  template <class F>
  struct Held final : Base {
    explicit Held(F held_rule) : rule(std::move(held_rule)) {}
    Grads apply(const Tensor& dy, const GradSlots& slots) override {
      if constexpr (std::invocable<F&, const Tensor&, const GradSlots&>) {
        return rule(dy, slots);
      } else {
        return rule(dy);
      }
    }
    F rule;
  };
  std::unique_ptr<Base> held_;
};

// For functions: makes the variable `value`, computed by `op` from `inputs`. `rule` is called once
// for each backward(). An input may be undefined, an optional operand left out. Without an input
// that requires a gradient, or inside a NoGradScope, the rule is dropped and the result is a plain
// leaf. Throws Error(invalid_argument) for an undefined value or rule.
[[nodiscard]] Variable record(const char* op, Tensor value, Variables inputs, Rule rule);

// A value that a rule needs later, and that nobody may change until then: get() throws
// Error(invalid_argument) if a call of Shoal's has written to its storage since.
class Saved {
 public:
  Saved() = default;
  Saved(const char* op, Tensor value);
  [[nodiscard]] const Tensor& get() const;

 private:
  const char* op_ = "";
  Tensor value_{};
  std::uint32_t version_ = 0;
};

// While one lives, functions called by this thread record nothing.
class NoGradScope {
 public:
  NoGradScope();
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  bool before_;
};

[[nodiscard]] bool grad_enabled();

}  // namespace shoal::autograd
