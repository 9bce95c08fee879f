#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "shoal/runtime/base/version.h"
#include "shoal/tools/shm_manager/command.h"

namespace shoal::tools {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Watches and tidies the named shared memory of Shoal's programs.", "shm-manager");
  app.set_version_flag("--version", "shm-manager " + std::string(kVersion));
  app.require_subcommand(1);
  Command chosen;
  add_serve(app, chosen);
  add_status(app, chosen);
  add_reap(app, chosen);
  add_doctor(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  return chosen();
}

}  // namespace
}  // namespace shoal::tools

int main(int argc, char** argv) {
  // A reader that has gone is an error of write(2), and no reason to die.
  ::signal(SIGPIPE, SIG_IGN);
  try {
    return shoal::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shm-manager: %s\n", error.what());
  } catch (...) {
    std::fputs("shm-manager: failed\n", stderr);
  }
  return shoal::tools::kFailed;
}
