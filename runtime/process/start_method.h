#pragma once

#include <span>
#include <string_view>

namespace shoal {

// How a worker comes to be. What it inherits:
//
//              spawn                 fork                       forkserver
//   memory     none                  a copy of all of it        none but what statics' constructors
//                                                               and main before child_main make
//   open       standard streams      all; channels that you     standard streams, as they were when
//   files                            made close once every      the server started
//                                    copy has
//   signals    ignored ones stay     handlers and mask          as spawn, when the server started
//              ignored; mask
//   env, cwd   of the launcher       of the launcher            of the launcher, when the server
//                                                               started
//   threads    none; the launcher    none; what others had      none
//              may have any          locked stays locked
//   entry      registered            any callable, captures     registered
//   ends by    exit                  _exit: no static is        _exit
//                                    destroyed
//
// With each of them LaunchOptions::environment is added, the launcher's ends of channels and
// what it watches its workers by are closed, and the worker ends within two seconds when its
// launcher has ended, however that happened; one that is stopped (SIGSTOP), as soon as it goes on.
enum class StartMethod {
  // The program again, from its start: main runs up to child_main, which runs the entry and exits.
  spawn,
  // A copy of this process at this moment. Fast while it is small.
  fork,
  // A copy of a process that was spawned once, has no threads and little memory, so that nothing of
  // the launcher's has to be copied. start_fork_server starts it early.
  forkserver,
};

[[nodiscard]] std::string_view to_string(StartMethod method);
// Throws Error(invalid_argument) that lists what there is.
[[nodiscard]] StartMethod parse_start_method(std::string_view name);
[[nodiscard]] std::span<const StartMethod> get_all_start_methods();

// What LaunchOptions start with: spawn, unless it was set. Any thread may call them.
[[nodiscard]] StartMethod default_start_method() noexcept;
void set_default_start_method(StartMethod method) noexcept;

}  // namespace shoal
