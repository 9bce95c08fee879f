#include "shoal/tools/shm_manager/manager_view.h"

#include <unistd.h>

#include "shoal/runtime/shm/manager_address.h"
#include "shoal/runtime/shm/manager_connection.h"

namespace shoal::tools {
namespace {

// All clients, a page after the other. They come and go meanwhile, so one may be missed or seen
// twice.
std::vector<manager::Client> ask_for_clients(manager::Connection& connection, Deadline deadline) {
  std::vector<manager::Client> clients;
  for (;;) {
    const auto first = static_cast<std::uint32_t>(clients.size());
    const manager::Frame page =
        connection.ask({.verb = manager::Verb::report, .first = first}, deadline);
    check(page.verb == manager::Verb::clients && page.first == first, ErrorKind::malformed,
          "shm-manager", "its answer is no report of clients from number ", first, " on");
    clients.insert(clients.end(), page.clients.begin(), page.clients.end());
    if (page.clients.empty() || clients.size() >= page.total) return clients;
  }
}

}  // namespace

std::string_view to_string(ManagerView::State state) {
  switch (state) {
    case ManagerView::State::listening:
      return "listening";
    case ManagerView::State::absent:
      return "absent";
    case ManagerView::State::off:
      return "off";
    case ManagerView::State::unreachable:
      return "unreachable";
  }
  return "unreachable";
}

ManagerView look_at_manager(Deadline deadline) {
  ManagerView view;
  if (manager::is_off()) {
    view.state = ManagerView::State::off;
    return view;
  }
  try {
    view.socket = manager::socket_path();
    manager::Connection connection(view.socket, deadline);
    view.clients = ask_for_clients(connection, deadline);
    // Who asks is not news.
    std::erase_if(view.clients, [me = static_cast<std::uint32_t>(::getpid())](const auto& client) {
      return client.pid == me;
    });
    view.pid = connection.manager_pid();
    view.state = ManagerView::State::listening;
  } catch (const Error& error) {
    view.clients.clear();
    if (error.kind() == ErrorKind::not_found) return view;
    view.state = ManagerView::State::unreachable;
    view.trouble = error.kind();
    view.reason = error.what();
  }
  return view;
}

}  // namespace shoal::tools
