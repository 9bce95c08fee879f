#include "shoal/tools/shm_manager/status_json.h"

#include <nlohmann/json.hpp>

#include "shoal/tools/shm_manager/json_line.h"

namespace shoal::tools {
namespace {

using Json = nlohmann::ordered_json;  // reads the same every time

Json to_json(const SegmentReport& segment, std::int64_t now_s) {
  Json holders = Json::array();
  for (const SegmentHolder& holder : segment.holders)
    holders.push_back({{"pid", holder.pid}, {"slot", holder.slot}, {"alive", holder.alive}});
  return {{"name", segment.name},
          {"bytes", segment.nbytes},
          {"resident_bytes", segment.resident_bytes},
          {"created_unix_seconds", segment.created_s},
          {"age_seconds", age_s(segment, now_s)},
          {"creator_pid", segment.creator_pid},
          {"holders", std::move(holders)},
          {"uid", segment.owner},
          {"state", to_string(segment.state)},
          {"reason", text_or_null(segment.reason)}};
}

Json to_json(const ManagerView& view) {
  Json clients = Json::array();
  for (const manager::Client& client : view.clients)
    clients.push_back({{"pid", client.pid},
                       {"uid", client.uid},
                       {"connected_seconds", client.connected_s},
                       {"messages", client.messages},
                       {"names", client.holds}});
  return {{"state", to_string(view.state)},
          {"socket", text_or_null(view.socket)},
          {"pid", view.pid == 0 ? Json(nullptr) : Json(view.pid)},
          {"reason", text_or_null(view.reason)},
          {"clients", std::move(clients)}};
}

Json to_json(const Sums& sums) {
  return {{"segments", sums.all.segments},
          {"bytes", sums.all.nbytes},
          {"resident_bytes", sums.all.resident_bytes},
          {"live", sums.live.segments},
          {"orphaned", sums.orphaned.segments},
          {"unknown", sums.unknown.segments}};
}

Json to_json(const CreatorGroup& group) {
  Json json{{"creator_pid", group.creator_pid}};
  json.update(to_json(group.sums));
  return json;
}

}  // namespace

std::string to_json(const Snapshot& snapshot, bool grouped) {
  Json segments = Json::array();
  for (const SegmentReport& segment : snapshot.segments)
    segments.push_back(to_json(segment, snapshot.now_s));
  Json json{{"unix_seconds", snapshot.now_s},
            {"prefix", snapshot.prefix},
            {"segments", std::move(segments)}};
  if (grouped) {
    json["groups"] = Json::array();
    for (const CreatorGroup& group : group_by_creator(snapshot.segments))
      json["groups"].push_back(to_json(group));
  }
  json["totals"] = to_json(sum_up(snapshot.segments));
  json["manager"] = to_json(snapshot.manager);
  json["shm"] = {{"bytes", snapshot.shm.size},
                 {"shoal_bytes", snapshot.shm.shoal},
                 {"others_bytes", snapshot.shm.others},
                 {"free_bytes", snapshot.shm.free}};
  return json_line(json);
}

}  // namespace shoal::tools
