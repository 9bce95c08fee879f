#pragma once

#include <cstdint>
#include <functional>

namespace shoal::optim {

// The learning rate for each step or epoch, whichever the caller counts, from 0 on: for
// Sgd::set_lr. Each maker throws Error(invalid_argument) for what makes no sense. Sources of the
// formulas: PyTorch's documentation of torch.optim.lr_scheduler.
using LrSchedule = std::function<double(std::int64_t t)>;

// lr gamma^floor(t / step_size): StepLR.
[[nodiscard]] LrSchedule step_lr(double lr, std::int64_t step_size, double gamma = 0.1);

// From lr to eta_min along half a cosine, in t_max steps: eta_min + (lr - eta_min) (1 +
// cos(pi t / t_max)) / 2, CosineAnnealingLR. Later: eta_min.
[[nodiscard]] LrSchedule cosine_annealing_lr(double lr, std::int64_t t_max, double eta_min = 0);

// In `steps` steps linearly from start_factor times `then` to all of it, as LinearLR; then goes on
// as `then`, which counts from the first of all steps.
[[nodiscard]] LrSchedule warmup_lr(LrSchedule then, std::int64_t steps,
                                   double start_factor = 1.0 / 3);

}  // namespace shoal::optim
