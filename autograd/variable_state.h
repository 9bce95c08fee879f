#pragma once

#include "shoal/autograd/record.h"

// Private to the engine: what a Variable refers to.
namespace shoal::autograd {

// How a value was computed, until backward() has used it up.
struct Node : Cached {
  Node(Variables node_inputs, Rule node_rule)
      : inputs(std::move(node_inputs)), rule(std::move(node_rule)) {}

  Variables inputs;  // undefined where an input needs no gradient
  Rule rule;
  Node* next = nullptr;  // while it waits to be destroyed
};

struct Variable::State {
  Tensor value{};
  Tensor grad{};             // of leaves only
  SparseRows sparse_grad{};  // of leaves only
  const char* op = "leaf";
  bool requires_grad = false;
  bool is_leaf = true;
  bool grad_is_zero = false;  // nobody but the engine has seen it since it was zeroed
  std::unique_ptr<Node> node{};

  // During a backward(), of a non-leaf below the root: which one, how many uses are yet to send
  // their share, and the sum so far.
  std::uint64_t pass = 0;
  std::int64_t uses = 0;
  Tensor sum{};

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  // Of a leaf: adds to its gradient, or takes `gradient` to be it.
  void accumulate(Tensor gradient);
  // Of a non-leaf: adds to `sum`.
  void collect(Tensor gradient);

  // Sends `gradient`, of the root's shape and dtype, down to the leaves.
  static void propagate(const std::shared_ptr<State>& root, Tensor gradient, bool retain_graph);

 private:
  class Backward;
};

}  // namespace shoal::autograd
