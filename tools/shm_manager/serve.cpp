#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/descriptor_limit.h"
#include "shoal/runtime/shm/manager_address.h"
#include "shoal/runtime/shm/manager_start.h"
#include "shoal/tools/shm_manager/command.h"
#include "shoal/tools/shm_manager/listener.h"
#include "shoal/tools/shm_manager/server.h"
#include "shoal/tools/shm_manager/service_log.h"
#include "shoal/tools/shm_manager/supervisor.h"

namespace shoal::tools {
namespace {

constexpr double kPatienceS = 2;  // for another process that is just here, at the socket's folder
constexpr double kPrivateIdleS = 30;

// The process that whoever started us waits for ends, in success; another one goes on, which is
// nobody's child, in the session that was made for it.
void go_on_alone() {
  const pid_t child = ::fork();
  if (child < 0) throw_errno("fork");
  if (child > 0) {
    const bool said = ::write(STDERR_FILENO, manager::kReady.data(), manager::kReady.size()) > 0;
    ::_exit(said ? kOk : kFailed);
  }
  const Fd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  if (nothing)
    for (const int stream : {0, 1, 2}) ::dup2(nothing.get(), stream);
  if (::chdir("/") != 0) spdlog::warn("the current folder stays in use");
}

// No more clients than leave a descriptor to look at segments with.
Limits within_descriptors(Limits limits) {
  rlimit of_process{};
  if (::getrlimit(RLIMIT_NOFILE, &of_process) != 0 || of_process.rlim_cur == RLIM_INFINITY)
    return limits;
  const rlim_t spare = std::min<rlim_t>(of_process.rlim_cur / 4, 64);
  const auto most = std::max<std::size_t>(1, of_process.rlim_cur - spare);
  limits.max_clients = std::min(limits.max_clients, most);
  return limits;
}

int serve(ServeOptions options) {
  if (options.is_private) {
    // These are about the program that started us.
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM"})
      ::unsetenv(name);
  }
  log_to_standard_error(options.limits.log_level);
  const Limits given = options.limits;
  if (!options.config.empty()) {
    options.limits = read_limits(options.config, given);
    set_log_level(options.limits.log_level);
  }
  (void)raise_descriptor_limit();
  options.limits = within_descriptors(options.limits);
  Listener listener = find_listener(options);
  if (options.is_private) go_on_alone();

  boost::asio::io_context loop(1);
  boost::asio::signal_set ending(loop, SIGTERM, SIGINT), reloading(loop, SIGHUP);
  Server server(loop, std::move(listener.socket), options);
  Heartbeat heartbeat(loop, [&] {
    return concat(server.clients(), " clients hold ", server.names(), " names; ", server.watched(),
                  " more are watched; ", server.removed(), " removed");
  });
  server.on_idle = [&](Fd socket) {
    if (listener.path.empty()) return socket;
    try {
      if (!manager::stop_listening(socket, listener.path, listener.file, in_seconds(kPatienceS)))
        return socket;
    } catch (const Error& error) {
      spdlog::warn("cannot end although there is nothing to watch: {}", error.what());
      // Where the folder is gone nobody can come any more.
      if (error.kind() != ErrorKind::not_found) return socket;
    }
    loop.stop();
    return Fd{};
  };
  ending.async_wait([&](const boost::system::error_code& failed, int signal) {
    if (failed) return;
    spdlog::info("ending at signal {}", signal);
    notify_stopping();
    if (!listener.path.empty()) manager::remove_socket(listener.path, listener.file);
    server.drain();
    loop.stop();
  });
  std::function<void()> wait_for_reload = [&] {
    reloading.async_wait([&](const boost::system::error_code& failed, int /*signal*/) {
      if (failed) return;
      notify_reloading();
      try {
        if (!options.config.empty()) {
          const Limits limits = within_descriptors(read_limits(options.config, given));
          server.set_limits(limits);
          set_log_level(limits.log_level);
        }
        spdlog::info("read {} again", options.config.empty() ? "nothing" : options.config);
      } catch (const Error& error) {
        spdlog::error("keeping the limits as they were: {}", error.what());
      }
      notify_ready();
      wait_for_reload();
    });
  };
  wait_for_reload();
  server.start();
  notify_ready();
  spdlog::info("ready");
  for (;;) {
    try {
      loop.run();
      return kOk;
    } catch (const std::exception& error) {
      // Out of memory, most likely. What a handler left undone the next sweep finds.
      spdlog::error("going on after: {}", error.what());
    }
  }
}

}  // namespace

void add_serve(CLI::App& app, Command& chosen) {
  auto* command = app.add_subcommand("serve", "Watches until it is ended by SIGTERM.");
  const auto options = std::make_shared<ServeOptions>();
  command->option_defaults()->always_capture_default();
  command->add_option("--socket", options->socket, "Where to listen, instead of where clients look")
      ->type_name("PATH");
  command
      ->add_option("--prefix", options->prefix,
                   "Sweep only names that start so, instead of all of Shoal's")
      ->type_name("PREFIX");
  command
      ->add_option("--config", options->config,
                   "A file of limits, read again at SIGHUP; it has the last word")
      ->type_name("FILE");
  command->add_flag("--private", options->is_private,
                    "Goes on in the background, and ends when there is nothing to watch");
  command->add_option("--listen-fd", options->listen_fd, "A listening socket that was inherited")
      ->check(CLI::Range(3, 1'000'000));
  auto* idle = command
                   ->add_option("--idle-exit", options->idle_exit_s,
                                "End after so many seconds with nothing to watch; 0: never")
                   ->check(CLI::Range(0.0, 1e9));
  add_limit_options(*command, options->limits);
  command->callback([options, idle, &chosen] {
    if (options->is_private && idle->count() == 0) options->idle_exit_s = kPrivateIdleS;
    chosen = [options] { return serve(*options); };
  });
}

}  // namespace shoal::tools
