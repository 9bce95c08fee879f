#include "shoal/runtime/process/launch.h"

#include <algorithm>
#include <utility>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/fork_server.h"
#include "shoal/runtime/process/launcher.h"
#include "shoal/runtime/process/worker_process.h"

namespace shoal {
namespace {

Message copy_of(const Message& message) {
  Message copy{.tag = message.tag,
               .bytes = message.bytes,
               .tensors = message.tensors,
               .fds = {},
               .queues = message.queues};
  for (const Fd& fd : message.fds) copy.fds.push_back(fd.duplicate());
  return copy;
}

}  // namespace

ProcessContext launch(Entry entry, const std::function<Message(int rank)>& args,
                      const LaunchOptions& options) {
  const std::string name = entry_name(entry);
  if (options.start_method != StartMethod::fork) check_child_main();
  Launcher launcher(options);
  for (int rank = 0; rank < options.nprocs; ++rank) {
    switch (options.start_method) {
      case StartMethod::spawn:
        launcher.spawn(name);
        break;
      case StartMethod::fork:
        launcher.fork(entry);
        break;
      case StartMethod::forkserver:
        launcher.fork_elsewhere(name);
        break;
    }
  }
  launcher.send_arguments(args);
  return launcher.take();
}

ProcessContext launch(Entry entry, const Message& args, const LaunchOptions& options) {
  return launch(
      entry, [&args](int) { return copy_of(args); }, options);
}

ProcessContext launch(Entry entry, const LaunchOptions& options) {
  return launch(entry, Message{}, options);
}

ProcessContext launch_forked(const std::function<int(Worker&)>& entry,
                             const LaunchOptions& options) {
  Launcher launcher(options);
  for (int rank = 0; rank < options.nprocs; ++rank) launcher.fork(entry);
  launcher.send_arguments([](int) { return Message{}; });
  return launcher.take();
}

void start_fork_server() {
  check_may_launch();
  ForkServer::instance().start();
}

}  // namespace shoal
