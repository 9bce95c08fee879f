#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/autograd/variable.h"
#include "shoal/runtime/base/block_cache.h"

// How functions are made, those of functions.h and a user's own: compute a value, keep what its
// gradient needs, and record() the rule that makes it.
namespace shoal::autograd {

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

}  // namespace shoal::autograd
