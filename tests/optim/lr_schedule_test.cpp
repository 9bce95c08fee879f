#include "shoal/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include "autograd/expect_error.h"

namespace shoal::optim {
namespace {

TEST(LrSchedule, StepsDown) {
  const LrSchedule lr = step_lr(0.8, 3, 0.5);
  EXPECT_DOUBLE_EQ(lr(0), 0.8);
  EXPECT_DOUBLE_EQ(lr(2), 0.8);
  EXPECT_DOUBLE_EQ(lr(3), 0.4);
  EXPECT_DOUBLE_EQ(lr(9), 0.1);
}

TEST(LrSchedule, FollowsHalfACosine) {
  const LrSchedule lr = cosine_annealing_lr(1, 4, 0.2);
  EXPECT_DOUBLE_EQ(lr(0), 1);
  EXPECT_DOUBLE_EQ(lr(1), 0.2 + 0.8 * (1 + 0.70710678118654752) / 2);
  EXPECT_DOUBLE_EQ(lr(2), 0.6);
  EXPECT_DOUBLE_EQ(lr(4), 0.2);
  EXPECT_DOUBLE_EQ(lr(100), 0.2);
}

TEST(LrSchedule, WarmsUpAndGoesOn) {
  const LrSchedule lr = warmup_lr(step_lr(1, 5, 0.1), 4, 0.2);
  EXPECT_DOUBLE_EQ(lr(0), 0.2);
  EXPECT_DOUBLE_EQ(lr(2), 0.6);
  EXPECT_DOUBLE_EQ(lr(4), 1);
  EXPECT_DOUBLE_EQ(lr(5), 0.1);
}

TEST(LrSchedule, RefusesWhatMakesNoSense) {
  constexpr ErrorKind kMisuse = ErrorKind::invalid_argument;
  expect_error(kMisuse, {"step_lr", "lr is -1"}, [] { (void)step_lr(-1, 1); });
  expect_error(kMisuse, {"step_lr", "step_size is 0"}, [] { (void)step_lr(1, 0); });
  expect_error(kMisuse, {"cosine", "t_max"}, [] { (void)cosine_annealing_lr(1, 0); });
  expect_error(kMisuse, {"warmup_lr", "schedule"}, [] { (void)warmup_lr({}, 3); });
  expect_error(kMisuse, {"warmup_lr", "start_factor is 0"},
               [] { (void)warmup_lr(step_lr(1, 1), 3, 0); });
}

}  // namespace
}  // namespace shoal::optim
