#include "shoal/optim/lr_schedule.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "shoal/runtime/base/error.h"

namespace shoal::optim {
namespace {

void check_rate(const char* call, const char* name, double value) {
  check(std::isfinite(value) && value >= 0, ErrorKind::invalid_argument, call, name, " is ", value,
        "; it must be a number of at least 0");
}

void check_steps(const char* call, const char* name, std::int64_t value) {
  check(value >= 1, ErrorKind::invalid_argument, call, name, " is ", value,
        "; it must be at least 1");
}

}  // namespace

LrSchedule step_lr(double lr, std::int64_t step_size, double gamma) {
  check_rate("step_lr", "lr", lr);
  check_rate("step_lr", "gamma", gamma);
  check_steps("step_lr", "step_size", step_size);
  return [=](std::int64_t t) {
    const std::int64_t times = t / step_size;
    return lr * std::pow(gamma, static_cast<double>(times));
  };
}

LrSchedule cosine_annealing_lr(double lr, std::int64_t t_max, double eta_min) {
  check_rate("cosine_annealing_lr", "lr", lr);
  check_rate("cosine_annealing_lr", "eta_min", eta_min);
  check_steps("cosine_annealing_lr", "t_max", t_max);
  return [=](std::int64_t t) {
    if (t >= t_max) return eta_min;
    const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(t_max);
    return eta_min + (lr - eta_min) * (1 + std::cos(angle)) / 2;
  };
}

LrSchedule warmup_lr(LrSchedule then, std::int64_t steps, double start_factor) {
  constexpr const char* kCall = "warmup_lr";
  check(then != nullptr, ErrorKind::invalid_argument, kCall, "there is no schedule to go on with");
  check_steps(kCall, "steps", steps);
  check(start_factor > 0 && start_factor <= 1, ErrorKind::invalid_argument, kCall,
        "start_factor is ", start_factor, "; it must be above 0 and at most 1");
  return [then = std::move(then), steps, start_factor](std::int64_t t) {
    const double part = t >= steps ? 1 : static_cast<double>(t) / static_cast<double>(steps);
    return then(t) * (start_factor + (1 - start_factor) * part);
  };
}

}  // namespace shoal::optim
