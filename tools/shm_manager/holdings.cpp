#include "shoal/tools/shm_manager/holdings.h"

#include <algorithm>

namespace shoal::tools {

void Holdings::hold(ClientId client, const std::string& name) {
  const auto at = holders_.try_emplace(name).first;
  if (names_[client].insert(&at->first).second) at->second.push_back(client);
}

void Holdings::strike_out(Holders::iterator name, ClientId client) {
  auto& holders = name->second;
  holders.erase(std::remove(holders.begin(), holders.end(), client), holders.end());
  if (holders.empty()) holders_.erase(name);
}

bool Holdings::release(ClientId client, const std::string& name) {
  const auto at = holders_.find(name);
  if (at == holders_.end()) return true;
  if (const auto of = names_.find(client); of != names_.end()) of->second.erase(&at->first);
  strike_out(at, client);
  return !is_held(name);
}

std::vector<std::string> Holdings::end(ClientId client) {
  std::vector<std::string> left;
  const auto of = names_.find(client);
  if (of == names_.end()) return left;
  for (const std::string* name : of->second) {
    const auto at = holders_.find(*name);
    if (at->second.size() == 1) left.push_back(*name);
    strike_out(at, client);
  }
  names_.erase(of);
  return left;
}

bool Holdings::is_held_by(ClientId client, const std::string& name) const {
  const auto at = holders_.find(name);
  return at != holders_.end() && std::ranges::find(at->second, client) != at->second.end();
}

std::size_t Holdings::names_of(ClientId client) const {
  const auto of = names_.find(client);
  return of == names_.end() ? 0 : of->second.size();
}

}  // namespace shoal::tools
