#include <cstdio>
#include <exception>

#include "shoal/runtime/process/launch.h"

// A program whose main forgot child_main, and tries to launch by the method it is told.
SHOAL_ENTRY(never_runs)
int never_runs(shoal::Worker& /*worker*/) { return 0; }

int main(int argc, char** argv) {
  std::puts("main");  // once, or it was started again
  try {
    const shoal::LaunchOptions options{.start_method =
                                           shoal::parse_start_method(argc > 1 ? argv[1] : "")};
    shoal::launch(never_runs, options).join();
    return 0;
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 3;
  }
}
