#include "shoal/runtime/process/output_tagger.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/spawn_program.h"
#include "shoal/runtime/process/worker_process.h"

namespace shoal {

OutputTagger::OutputTagger(int workers) : owner_(::getpid()) {
  check_child_main();
  std::vector<Fd> reading;
  for (int stream = 0; stream < 2 * workers; ++stream) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) throw_errno("pipe2");
    reading.emplace_back(ends[0]);
    writing_.emplace_back(ends[1]);
  }
  std::vector<const Fd*> kept;
  for (const Fd& fd : reading) kept.push_back(&fd);
  process_ = watch_child(spawn_program(output_tagger_arguments(reading), kept, {}));
}

OutputTagger::~OutputTagger() { finish(in_ms(0)); }

void OutputTagger::finish(Deadline deadline) noexcept {
  close_writing();
  if (!process_ || owner_ != ::getpid()) return;
  try {
    if (!wait_ready(process_.get(), POLLIN, deadline)) return;
  } catch (const Error&) {
    return;
  }
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED | WNOHANG);
  process_.reset();
}

}  // namespace shoal
