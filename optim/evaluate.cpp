#include "shoal/optim/evaluate.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/tensor/ops.h"

namespace shoal::optim {

namespace {

// The module as in use, until the end of the scope.
class EvalScope {
 public:
  explicit EvalScope(autograd::Module& model) {
    for (autograd::Module* module : model.modules())
      before_.emplace_back(module, module->is_training());
    model.eval();
  }
  // Each sets those within it as well, which come after it.
  ~EvalScope() {
    for (const auto& [module, on] : before_) module->train(on);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<autograd::Module*, bool>> before_{};
};

}  // namespace

double accuracy(autograd::Module& model, const Dataset& data, std::int64_t batch_size) {
  data.validate();
  check(batch_size >= 1, ErrorKind::invalid_argument, "accuracy", "a batch of ", batch_size,
        " samples; at least 1 is needed");
  const autograd::NoGradScope no_grad;
  const EvalScope as_in_use(model);
  const auto parameters = model.parameters();
  const DType dtype = parameters.empty() ? DType::f32 : parameters.front().dtype();
  std::int64_t right = 0;
  for (std::int64_t start = 0; start < data.size(); start += batch_size) {
    std::vector<std::int64_t> indices(
        static_cast<std::size_t>(std::min(batch_size, data.size() - start)));
    std::iota(indices.begin(), indices.end(), start);
    const Batch batch = gather(data, indices, dtype);
    const Tensor guesses = ops::argmax(model.forward(autograd::Variable(batch.inputs)).value());
    const auto guess = guesses.span<std::int64_t>(), target = batch.targets.span<std::int64_t>();
    check(guess.size() == target.size(), ErrorKind::invalid_argument, "accuracy",
          "the model gave scores for ", guess.size(), " samples of ", target.size());
    for (std::size_t i = 0; i < guess.size(); ++i) right += guess[i] == target[i];
  }
  return static_cast<double>(right) / static_cast<double>(data.size());
}

}  // namespace shoal::optim
