#include "shoal/runtime/process/entry.h"

#include <map>

#include "shoal/runtime/base/error.h"

namespace shoal {
namespace {

// Filled while statics are initialised, read-only from main on.
std::multimap<std::string, Entry, std::less<>>& entries() {
  static std::multimap<std::string, Entry, std::less<>> instance;
  return instance;
}

}  // namespace

bool register_entry(std::string_view name, Entry entry) {
  entries().emplace(name, entry);
  return true;
}

std::string entry_name(Entry entry) {
  for (const auto& [name, registered] : entries()) {
    if (registered != entry) continue;
    (void)find_entry(name);  // refuses an ambiguous name here, where the mistake is
    return name;
  }
  throw Error({.kind = ErrorKind::invalid_argument,
               .call = "launch",
               .reason = "the function is not an entry",
               .remedy = "Write SHOAL_ENTRY(its_name) before its definition"});
}

Entry find_entry(std::string_view name) {
  const auto [first, last] = entries().equal_range(name);
  check(first != last, ErrorKind::invalid_argument, "find_entry", "no SHOAL_ENTRY is named '", name,
        "' in this program");
  check(std::next(first) == last, ErrorKind::invalid_argument, "find_entry",
        "more than one SHOAL_ENTRY is named '", name, "'");
  return first->second;
}

}  // namespace shoal
