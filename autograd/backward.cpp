#include <unordered_map>
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

}  // namespace

void Variable::State::accumulate(Tensor gradient) {
  if (grad.defined()) {
    ops::axpy(grad, 1, gradient);
  } else {
    grad = is_own(gradient) ? std::move(gradient) : gradient.clone();
  }
}

struct Variable::State::Pending {
  std::int64_t uses = 0;
  Tensor sum{};

  void add(Tensor gradient) {
    if (!sum.defined()) {
      sum = std::move(gradient);
    } else if (is_own(sum)) {
      ops::axpy(sum, 1, gradient);
    } else {
      sum = ops::add(sum, gradient);
    }
  }
};

// Two walks down the graph: the first counts the uses of every node, the second runs a node's rule
// once all its uses have sent their gradients. The order follows from the graph alone, so that sums
// are the same bits in every run.
class Variable::State::Backward {
 public:
  explicit Backward(const std::shared_ptr<State>& root) {
    std::vector<State*> found{root.get()};
    while (!found.empty()) {
      const State& state = *found.back();
      found.pop_back();
      check(state.node != nullptr, ErrorKind::invalid_argument, "backward", "the graph of '",
            state.op, "' of shape ", state.value.shape(),
            " was used up by an earlier backward(); compute it again");
      for (const Variable& input : state.node->inputs)
        if (input.defined() && !input.is_leaf() && pending_[input.state_.get()].uses++ == 0)
          found.push_back(input.state_.get());
    }
  }

  void run(const std::shared_ptr<State>& root, Tensor gradient) {
    ready_.emplace_back(root, std::move(gradient));
    while (!ready_.empty()) {
      auto [state, dy] = std::move(ready_.back());
      ready_.pop_back();
      // Used up from here on, whatever the rule does.
      const std::unique_ptr<Node> used = std::move(state->node);
      Grads grads = used->rule(dy);
      dy = {};
      check(grads.size() == used->inputs.size(), ErrorKind::invalid_argument, "backward", "'",
            state->op, "' has ", used->inputs.size(), " inputs, its rule gave ", grads.size(),
            " gradients");
      for (std::size_t i = 0; i < grads.size(); ++i)
        if (used->inputs[i].defined()) send(state->op, used->inputs[i].state_, std::move(grads[i]));
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
    const auto place = pending_.find(input.get());
    Pending& sent = place->second;
    sent.add(std::move(gradient));
    if (--sent.uses > 0) return;
    ready_.emplace_back(input, std::move(sent.sum));
    pending_.erase(place);
  }

  std::unordered_map<State*, Pending> pending_;
  std::vector<std::pair<std::shared_ptr<State>, Tensor>> ready_;
};

void Variable::State::propagate(const std::shared_ptr<State>& root, Tensor gradient) {
  if (root->is_leaf) {
    root->accumulate(std::move(gradient));
    return;
  }
  Backward(root).run(root, std::move(gradient));
}

}  // namespace shoal::autograd
