#include <gtest/gtest.h>

#include "shoal/runtime/process/launch.h"

// Tests launch workers by spawn, which runs this program again.
int main(int argc, char** argv) {
  shoal::child_main(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
