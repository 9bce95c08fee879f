#pragma once

#include <memory>
#include <vector>

#include "shoal/runtime/base/block_cache.h"
#include "shoal/runtime/tensor/sparse_rows.h"
#include "shoal/runtime/tensor/tensor.h"

namespace shoal::autograd {

class GradSlots;
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
