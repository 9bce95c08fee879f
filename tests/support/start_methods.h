#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "shoal/runtime/process/launch.h"
#include "support/peer.h"

namespace shoal::test {

// A test that is the same for each way to start workers.
class WithStartMethod : public testing::TestWithParam<StartMethod> {
 protected:
  [[nodiscard]] static LaunchOptions with(int nprocs) {
    return {.nprocs = nprocs, .start_method = GetParam()};
  }
};

#define SHOAL_FOR_ALL_START_METHODS(suite)                                        \
  INSTANTIATE_TEST_SUITE_P(                                                       \
      StartMethods, suite, ::testing::ValuesIn(::shoal::get_all_start_methods()), \
      [](const auto& one) { return std::string(::shoal::to_string(one.param)); })

}  // namespace shoal::test
