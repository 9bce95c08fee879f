#include "shoal/autograd/variable.h"

#include <algorithm>
#include <utility>

#include "shoal/autograd/variable_state.h"
#include "shoal/runtime/base/error.h"

namespace shoal::autograd {
namespace {

thread_local bool recording = true;

// Destroys a node whose inputs may be the last to hold the nodes below, and so on down: each of
// them comes back here while the first is at it, and waits in a list instead of on the stack.
// The list is made of the nodes themselves, so that giving back memory never needs any.
void discard(std::unique_ptr<Node> node) noexcept {
  thread_local Node* waiting = nullptr;
  thread_local bool at_it = false;
  node->next = std::exchange(waiting, node.get());
  static_cast<void>(node.release());
  if (at_it) return;
  at_it = true;
  while (waiting != nullptr) {
    const std::unique_ptr<Node> first(waiting);
    waiting = first->next;
  }
  at_it = false;
}

void check_fits(const Tensor& value, const Tensor& other, const char* call, const char* what) {
  check(other.shape() == value.shape() && other.dtype() == value.dtype(),
        ErrorKind::invalid_argument, call, what, " of ", to_string(other.dtype()), " ",
        other.shape(), " given for ", to_string(value.dtype()), " ", value.shape());
}

}  // namespace

Variable::State::~State() {
  if (node != nullptr) discard(std::move(node));
}

Variable::Variable(Tensor value, bool requires_grad) {
  check(value.defined(), ErrorKind::invalid_argument, "Variable", "the tensor is undefined");
  check(!requires_grad || value.dtype() == DType::f32 || value.dtype() == DType::f64,
        ErrorKind::invalid_argument, "Variable", "no gradient for ", to_string(value.dtype()), " ",
        value.shape(), "; f32 and f64 have one");
  state_ = std::allocate_shared<State>(CacheAllocator<State>());
  state_->value = std::move(value);
  state_->requires_grad = requires_grad;
}

const Tensor& Variable::value() const {
  check(defined(), ErrorKind::invalid_argument, "Variable::value", "the variable is undefined");
  return state_->value;
}

bool Variable::requires_grad() const { return defined() && state_->requires_grad; }

bool Variable::is_leaf() const { return defined() && state_->is_leaf; }

const Tensor& Variable::grad() const {
  check(defined(), ErrorKind::invalid_argument, "Variable::grad", "the variable is undefined");
  // From here on somebody else may write to it.
  state_->grad_is_zero = false;
  return state_->grad;
}

bool Variable::has_grad() const {
  return defined() && state_->grad.defined() && !state_->grad_is_zero;
}

bool Variable::is_bound_to(const Tensor& value, const Tensor& grad) const {
  const auto lies_at = [](const Tensor& tensor, const Tensor& place) {
    return tensor.defined() && place.defined() && tensor.storage() == place.storage() &&
           tensor.offset() == place.offset() && tensor.is_contiguous();
  };
  return defined() && lies_at(state_->value, value) && lies_at(state_->grad, grad);
}

SparseRows& Variable::sparse_grad() const {
  check(defined(), ErrorKind::invalid_argument, "Variable::sparse_grad",
        "the variable is undefined");
  return state_->sparse_grad;
}

void Variable::zero_grad() const {
  check(defined(), ErrorKind::invalid_argument, "Variable::zero_grad", "the variable is undefined");
  state_->sparse_grad.clear();
  if (!state_->grad.defined() || state_->grad_is_zero) return;
  state_->grad.zero_();
  state_->grad_is_zero = true;
}

void Variable::bind(Tensor value, Tensor grad) const {
  constexpr const char* kCall = "Variable::bind";
  check(is_leaf(), ErrorKind::invalid_argument, kCall, "what '", defined() ? state_->op : "nothing",
        "' computed is no leaf");
  check(value.defined(), ErrorKind::invalid_argument, kCall, "the tensor is undefined");
  check_fits(state_->value, value, kCall, "a value");
  if (grad.defined()) {
    check_fits(state_->value, grad, kCall, "a gradient");
    check(grad.is_contiguous(), ErrorKind::invalid_argument, kCall, "a gradient of shape ",
          grad.shape(), " is not contiguous");
  }
  state_->value = std::move(value);
  state_->grad = std::move(grad);
  state_->grad_is_zero = false;
}

Variable Variable::detach() const { return Variable(value()); }

void Variable::backward(const Tensor& grad, bool retain_graph) const {
  constexpr const char* kCall = "backward";
  check(defined(), ErrorKind::invalid_argument, kCall, "the variable is undefined");
  check(requires_grad(), ErrorKind::invalid_argument, kCall, "'", state_->op, "' of shape ",
        shape(), " needs no gradient");
  if (grad.defined()) {
    check_fits(value(), grad, kCall, concat("for '", state_->op, "' a gradient").c_str());
    // A copy: it may be a leaf's gradient, to which this adds.
    State::propagate(state_, grad.clone(), retain_graph);
  } else {
    check(value().numel() == 1, ErrorKind::invalid_argument, kCall, "'", state_->op, "' of shape ",
          shape(), " is not a single number; give a gradient of its shape");
    State::propagate(state_, Tensor::ones(shape(), dtype()), retain_graph);
  }
}

Variable record(const char* op, Tensor value, Variables inputs, Rule rule) {
  check(rule.defined(), ErrorKind::invalid_argument, "record", "'", op, "' has no rule");
  Variable result(std::move(value));
  result.state_->op = op;
  const auto needs_grad = [](const Variable& input) { return input.requires_grad(); };
  if (!recording || std::none_of(inputs.begin(), inputs.end(), needs_grad)) return result;
  for (Variable& input : inputs)
    if (!needs_grad(input)) input = {};
  result.state_->requires_grad = true;
  result.state_->is_leaf = false;
  result.state_->node = std::make_unique<Node>(std::move(inputs), std::move(rule));
  return result;
}

NoGradScope::NoGradScope() : before_(std::exchange(recording, false)) {}
NoGradScope::~NoGradScope() { recording = before_; }

bool grad_enabled() { return recording; }

}  // namespace shoal::autograd
