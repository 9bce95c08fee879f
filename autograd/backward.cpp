#include <atomic>
#include <utility>

#include "shoal/autograd/variable_state.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/ops.h"

namespace shoal::autograd {
namespace {

// Whether nobody but the caller can see these bytes, so that they may be kept or added to. A graph
// belongs to one thread, hence a count of one stays one.
bool is_own(const Tensor& tensor) {
  return tensor.storage().use_count() == 1 && tensor.is_contiguous() &&
         tensor.storage()->nbytes() == tensor.nbytes();
}

// Whether a rule has added to the gradient it was shown.
bool is_same(const Tensor& a, const Tensor& b) {
  return b.defined() && a.storage() == b.storage() && a.offset() == b.offset() && a.is_contiguous();
}

// Names a call of backward(), for marks that outlive it where it throws. Relaxed: only different
// values matter.
std::uint64_t next_pass() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void Variable::State::accumulate(Tensor gradient) {
  if (!grad.defined()) {
    grad = is_own(gradient) ? std::move(gradient) : gradient.clone();
  } else if (grad_is_zero && !may_overlap(grad, gradient)) {
    grad.copy_(gradient);
  } else {
    ops::axpy(grad, 1, gradient);
  }
  grad_is_zero = false;
}

void Variable::State::collect(Tensor gradient) {
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (is_own(sum)) {
    ops::axpy(sum, 1, gradient);
  } else {
    sum = ops::add(sum, gradient);
  }
}

GradSlots::Slot GradSlots::operator[](std::size_t input) const {
  const Variable* variable = leaf(input);
  if (variable == nullptr || !variable->state_->grad.defined()) return {};
  shown_ |= std::uint64_t{1} << input;
  Variable::State& state = *variable->state_;
  return {state.grad, !std::exchange(state.grad_is_zero, false)};
}

const Variable* GradSlots::leaf(std::size_t input) const {
  if (input >= inputs_->size() || input >= 64) return nullptr;
  const Variable& variable = (*inputs_)[input];
  return variable.is_leaf() ? &variable : nullptr;
}

bool GradSlots::add_sparse(std::size_t input, const Tensor& index, const Tensor& rows) const {
  const Variable* variable = leaf(input);
  if (variable == nullptr) return false;
  sparse_ |= std::uint64_t{1} << input;
  SparseRows& sparse = variable->state_->sparse_grad;
  if (index.rank() == 2 && rows.rank() == 2) {
    sparse.add_bags(index, rows);
  } else {
    sparse.add(index, rows);
  }
  return true;
}

// Two walks down the graph: the first counts the uses of every node, the second runs a node's rule
// once all its uses have sent their gradients. The order follows from the graph alone, so that sums
// are the same bits in every run.
class Variable::State::Backward {
 public:
  Backward(const std::shared_ptr<State>& root, bool retain_graph) : retain_graph_(retain_graph) {
    std::vector<State*, CacheAllocator<State*>> found{root.get()};
    while (!found.empty()) {
      const State& state = *found.back();
      found.pop_back();
      check(state.node != nullptr, ErrorKind::invalid_argument, "backward", "the graph of '",
            state.op, "' of shape ", state.value.shape(),
            " was used up by an earlier backward(); compute it again, or let that one retain it");
      for (const Variable& input : state.node->inputs) {
        if (!input.defined() || input.is_leaf()) continue;
        State& below = *input.state_;
        if (below.pass != pass_) {
          below.pass = pass_;
          below.uses = 0;
          below.sum = {};
          found.push_back(&below);
        }
        ++below.uses;
      }
    }
  }

  void run(const std::shared_ptr<State>& root, Tensor gradient) {
    ready_.emplace_back(root, std::move(gradient));
    while (!ready_.empty()) {
      auto [state, dy] = std::move(ready_.back());
      ready_.pop_back();
      // Used up from here on, whatever the rule does.
      std::unique_ptr<Node> used;
      if (!retain_graph_) used = std::move(state->node);
      const Node& current = used != nullptr ? *used : *state->node;
      const GradSlots slots(current.inputs);
      Grads grads = current.rule(dy, slots);
      dy = {};
      check(grads.size() == current.inputs.size(), ErrorKind::invalid_argument, "backward", "'",
            state->op, "' has ", current.inputs.size(), " inputs, its rule gave ", grads.size(),
            " gradients");
      for (std::size_t i = 0; i < grads.size(); ++i) {
        if (!current.inputs[i].defined()) continue;
        const std::shared_ptr<State>& input = current.inputs[i].state_;
        if (is_marked(slots.sparse_, i) && !grads[i].defined()) continue;
        if (is_marked(slots.shown_, i) && is_same(input->grad, grads[i])) continue;
        send(state->op, input, std::move(grads[i]));
      }
    }
  }

 private:
  void send(const char* name, const std::shared_ptr<State>& input, Tensor gradient) {
    const Tensor& target = input->value;
    check(gradient.defined(), ErrorKind::invalid_argument, "backward", "the rule of '", name,
          "' gave no gradient for its input of shape ", target.shape());
    check(gradient.shape() == target.shape() && gradient.dtype() == target.dtype(),
          ErrorKind::invalid_argument, "backward", "the rule of '", name, "' gave ",
          to_string(gradient.dtype()), " ", gradient.shape(), " for its input of ",
          to_string(target.dtype()), " ", target.shape());
    if (input->is_leaf) {
      input->accumulate(std::move(gradient));
      return;
    }
    input->collect(std::move(gradient));
    if (--input->uses > 0) return;
    ready_.emplace_back(input, std::move(input->sum));
    input->sum = {};
  }

  static bool is_marked(std::uint64_t marks, std::size_t input) {
    return input < 64 && (marks >> input & 1U) != 0;
  }

  const std::uint64_t pass_ = next_pass();
  const bool retain_graph_;
  using Ready = std::pair<std::shared_ptr<State>, Tensor>;
  std::vector<Ready, CacheAllocator<Ready>> ready_{};
};

void Variable::State::propagate(const std::shared_ptr<State>& root, Tensor gradient,
                                bool retain_graph) {
  if (root->is_leaf) {
    root->accumulate(std::move(gradient));
    return;
  }
  Backward(root, retain_graph).run(root, std::move(gradient));
}

}  // namespace shoal::autograd
