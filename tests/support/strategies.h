#pragma once

#include <gtest/gtest.h>

#include <string>

#include "shoal/runtime/process/launch.h"
#include "shoal/runtime/shm/sharing_strategy.h"

// What a test written once runs for.
namespace shoal::test {

inline std::string strategy_name(const testing::TestParamInfo<SharingStrategy>& info) {
  return std::string(to_string(info.param));
}

// Makes `strategy` the process' own while it lives.
class UsingStrategy {
 public:
  explicit UsingStrategy(SharingStrategy strategy) : before_(get_sharing_strategy()) {
    set_sharing_strategy(strategy);
  }
  ~UsingStrategy() { set_sharing_strategy(before_); }
  UsingStrategy(const UsingStrategy&) = delete;
  UsingStrategy& operator=(const UsingStrategy&) = delete;

 private:
  SharingStrategy before_;
};

}  // namespace shoal::test
