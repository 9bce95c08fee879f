#include <gtest/gtest.h>

#include <cstdlib>

#include "shoal/runtime/process/launch.h"

// Tests launch workers by spawn, which runs this program again.
int main(int argc, char** argv) {
  // No daemon of this user's has a part in a test, nor is one started, unless the test says so.
  ::setenv("SHOAL_MANAGER", "off", 0);
  shoal::child_main(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
