#pragma once

#include "shoal/autograd/variable.h"

// Private to the engine: what a Variable refers to.
namespace shoal::autograd {

// How a value was computed, until backward() has used it up.
struct Node {
  std::vector<Variable> inputs;  // undefined where an input needs no gradient
  std::function<Grads(const Tensor&)> rule;
  Node* next = nullptr;  // while it waits to be destroyed
};

struct Variable::State {
  Tensor value;
  Tensor grad{};  // of leaves only
  const char* op = "leaf";
  bool requires_grad = false;
  bool is_leaf = true;
  std::unique_ptr<Node> node{};

  ~State();

  // Of a leaf: adds to its gradient, or takes `gradient` to be it.
  void accumulate(Tensor gradient);

  // Sends `gradient`, of the root's shape and dtype, down to the leaves.
  static void propagate(const std::shared_ptr<State>& root, Tensor gradient);

 private:
  // Of a non-leaf below the root: how many uses are yet to send their share, and the sum so far.
  struct Pending;
  class Backward;
};

}  // namespace shoal::autograd
