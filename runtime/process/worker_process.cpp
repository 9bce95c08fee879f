#include "shoal/runtime/process/worker_process.h"

#include <cxxabi.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <typeinfo>

#include "shoal/runtime/base/deadline.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/process/parent_watch.h"
#include "shoal/runtime/process/processors.h"
#include "shoal/runtime/process/throw_trace.h"
#include "shoal/runtime/shm/segment_pool.h"

namespace shoal {
namespace {

constexpr std::size_t kReportBytes = 4096;  // PIPE_BUF: written whole or not at all
constexpr int kExitRaised = 1;
constexpr int kExitOther = 255;
constexpr double kPatienceMs = 1000;

bool may_launch = true;

std::string type_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed), &std::free);
  return failed == 0 ? text.get() : type.name();
}

void report(const Fd& pipe, const FailureReport& failure) {
  const std::string text = encode_report(failure);
  [[maybe_unused]] const auto written = ::write(pipe.get(), text.data(), text.size());
}

void report(const Fd& pipe, const std::exception& error) {
  report(pipe, {.type = type_name(typeid(error)),
                .message = error.what(),
                .calls = describe_throw(dynamic_cast<const void*>(&error), typeid(error))});
}

void pin(const std::vector<int>& processors) {
  const int most = processors.back() + 1;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
      CPU_ALLOC(most), [](cpu_set_t* allocated) { CPU_FREE(allocated); });
  if (set == nullptr) throw std::bad_alloc();
  const std::size_t nbytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(nbytes, set.get());
  for (const int id : processors) CPU_SET_S(id, nbytes, set.get());
  if (::sched_setaffinity(0, nbytes, set.get()) != 0) throw_errno("sched_setaffinity");
}

void apply(const WorkerSettings& settings) {
  may_launch = settings.allow_children;
  for (const auto& [name, value] : settings.environment)
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) throw_errno("setenv", name);
  if (settings.pin_cpus) pin(processors_of(settings.rank, settings.threads, find_processors()));
  // A line is seen when it is written, though there is no terminal.
  if (settings.tag_output) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

}  // namespace

std::string encode_report(const FailureReport& report) {
  std::string text = report.type + '\0' + report.message + '\0' + report.calls;
  if (text.size() > kReportBytes) text.resize(kReportBytes);
  return text;
}

FailureReport decode_report(const std::string& text) {
  std::array<std::string, 3> parts;
  std::size_t at = 0;
  for (std::string& part : parts) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    part = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
  }
  return {.type = parts[0], .message = parts[1], .calls = parts[2]};
}

int run_worker(const std::function<int(Worker&)>& entry, const WorkerSettings& settings,
               WorkerEnds ends) noexcept {
  const ThrowTraces remembered;
  try {
    apply(settings);
    end_with(std::move(ends.launcher), settings.rank);
    Channel parent(std::move(ends.channel));
    // The launcher keeps the time; if it ends meanwhile, so does this process.
    auto args = parent.receive();
    check(args.has_value(), ErrorKind::peer_gone, "worker", "no arguments came from the launcher");
    Worker worker{.rank = settings.rank,
                  .world_size = settings.world_size,
                  .parent = parent,
                  .args = std::move(*args),
                  .threads = settings.threads};
    const int code = entry(worker);
    if (code == 0) Channel(std::move(ends.result)).send(worker.result);
    // Of an exit code eight bits are kept.
    return code != 0 && (code & 0xff) == 0 ? kExitOther : code;
  } catch (const std::exception& error) {
    report(ends.report, error);
  } catch (...) {
    report(ends.report, {.type = "an exception", .message = "not derived from std::exception"});
  }
  return kExitRaised;
}

void run_forked_worker(const std::function<void()>& settle,
                       const std::function<int(Worker&)>& entry, const WorkerSettings& settings,
                       WorkerEnds ends) noexcept {
  int code = kExitRaised;
  try {
    settle();
    code = run_worker(entry, settings, std::move(ends));
  } catch (const std::exception& error) {
    report(ends.report, error);
  }
  flush_output();
  SegmentPool::instance().leave_named_segments();
  ::_exit(code);
}

namespace {

// Both, since C++'s stream may have a buffer of its own; or it waits for C's, which another thread
// may be stuck in, and so it is locked first.
void flush(std::FILE* file, std::initializer_list<std::ostream*> streams) {
  const Deadline deadline = in_ms(kPatienceMs);
  while (::ftrylockfile(file) != 0) {
    if (deadline.expired()) return;
    ::poll(nullptr, 0, 1);
  }
  try {
    for (std::ostream* stream : streams) stream->flush();
  } catch (const std::exception&) {
    // It was asked to throw; what it has is lost then.
  }
  ::fflush_unlocked(file);
  ::funlockfile(file);
}

}  // namespace

void flush_output() noexcept {
  flush(stdout, {&std::cout});
  flush(stderr, {&std::cerr, &std::clog});
}

void check_may_launch() {
  if (may_launch) return;
  throw Error({.kind = ErrorKind::unsupported,
               .call = "launch",
               .reason = "this process is a worker that may not launch others",
               .remedy = "Launch it with allow_children = true"});
}

}  // namespace shoal
