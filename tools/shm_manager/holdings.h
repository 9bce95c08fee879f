#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace shoal::tools {

// Which client says that it holds which names. Bookkeeping only: whether a segment is held at all
// is not decided here but by the locks on its file. For one thread.
class Holdings {
 public:
  using ClientId = std::uint64_t;

  // Idempotent.
  void hold(ClientId client, const std::string& name);
  // Whether no client holds the name any more; also true if none did.
  bool release(ClientId client, const std::string& name);
  // The client holds nothing any more. Returns the names that no client holds now.
  std::vector<std::string> end(ClientId client);

  [[nodiscard]] bool is_held(const std::string& name) const { return holders_.contains(name); }
  [[nodiscard]] bool is_held_by(ClientId client, const std::string& name) const;
  [[nodiscard]] std::size_t names_of(ClientId client) const;
  [[nodiscard]] std::size_t names() const { return holders_.size(); }

 private:
  // One, as a rule, which then takes no memory of its own.
  using Holders = std::unordered_map<std::string, boost::container::small_vector<ClientId, 1>>;
  // False if the client was not among them. Erases a name without holders.
  void strike_out(Holders::iterator name, ClientId client);

  Holders holders_;
  // Points at keys of holders_, which stay where they are; a hundred thousand names are common.
  std::unordered_map<ClientId, std::unordered_set<const std::string*>> names_;
};

}  // namespace shoal::tools
