#include "shoal/tools/shm_manager/status_text.h"

#include "shoal/runtime/base/error.h"
#include "shoal/runtime/shm/byte_count.h"
#include "shoal/tools/shm_manager/printable.h"
#include "shoal/tools/shm_manager/table.h"

namespace shoal::tools {
namespace {

using enum Table::Align;

// Of more holders only the number is shown.
constexpr std::size_t kMostPids = 4;

std::string bytes(std::uint64_t count) { return concat(ByteCount{count}); }
std::string pid_text(std::uint32_t pid) { return pid == 0 ? "-" : std::to_string(pid); }

Paint paint_of(SegmentState state) {
  switch (state) {
    case SegmentState::live:
      return Paint::good;
    case SegmentState::orphaned:
      return Paint::bad;
    case SegmentState::unknown:
      return Paint::doubtful;
  }
  return Paint::plain;
}

std::string holders_text(const SegmentReport& segment) {
  const std::vector<std::uint32_t> pids = living_holders(segment);
  std::string text = std::to_string(pids.size());
  for (std::size_t i = 0; i < pids.size(); ++i) {
    text += i == 0 ? ": " : " ";
    if (i == kMostPids) return text + "...";
    text += std::to_string(pids[i]);
  }
  return text;
}

std::string state_text(const SegmentReport& segment) {
  std::string text(to_string(segment.state));
  if (!segment.reason.empty()) text += ": " + printable(segment.reason);
  return text;
}

std::string segments_text(const Snapshot& snapshot, bool colored) {
  if (snapshot.segments.empty())
    return concat("No segments named ", snapshot.prefix, "segment-...\n");
  Table table({{"NAME"},
               {"BYTES", right},
               {"RESIDENT", right},
               {"AGE", right},
               {"CREATOR", right},
               {"HOLDERS"},
               {"OWNER"},
               {"STATE"}},
              colored);
  for (const SegmentReport& segment : snapshot.segments)
    table.add({{printable(segment.name)},
               {bytes(segment.nbytes)},
               {bytes(segment.resident_bytes)},
               {concat(Age{age_s(segment, snapshot.now_s)})},
               {pid_text(segment.creator_pid)},
               {holders_text(segment)},
               {printable(user_name(segment.owner))},
               {state_text(segment), paint_of(segment.state)}});
  return table.text();
}

std::string groups_text(const Snapshot& snapshot, bool colored) {
  if (snapshot.segments.empty()) return segments_text(snapshot, colored);
  Table table({{"CREATOR", right},
               {"SEGMENTS", right},
               {"BYTES", right},
               {"RESIDENT", right},
               {"LIVE", right},
               {"ORPHANED", right},
               {"UNKNOWN", right}},
              colored);
  for (const auto& [pid, sums] : group_by_creator(snapshot.segments))
    table.add({{pid_text(pid)},
               {std::to_string(sums.all.segments)},
               {bytes(sums.all.nbytes)},
               {bytes(sums.all.resident_bytes)},
               {std::to_string(sums.live.segments)},
               {std::to_string(sums.orphaned.segments),
                sums.orphaned.segments > 0 ? Paint::bad : Paint::plain},
               {std::to_string(sums.unknown.segments),
                sums.unknown.segments > 0 ? Paint::doubtful : Paint::plain}});
  return table.text();
}

std::string clients_text(const std::vector<manager::Client>& clients, bool colored) {
  if (clients.empty()) return {};
  Table table(
      {{"PID", right}, {"USER"}, {"CONNECTED", right}, {"MESSAGES", right}, {"NAMES", right}},
      colored);
  for (const manager::Client& client : clients)
    table.add({{pid_text(client.pid)},
               {printable(user_name(client.uid))},
               {concat(Age{client.connected_s})},
               {std::to_string(client.messages)},
               {std::to_string(client.holds)}});
  return table.text();
}

std::string manager_text(const ManagerView& view, bool colored) {
  const std::string socket = printable(view.socket);
  switch (view.state) {
    case ManagerView::State::off:
      return "No manager is used: SHOAL_MANAGER=off.\n";
    case ManagerView::State::absent:
      return concat("No manager runs; none listens at ", socket, ".\n");
    case ManagerView::State::unreachable:
      return painted("The manager cannot be asked: " + printable(view.reason), Paint::bad,
                     colored) +
             "\n";
    case ManagerView::State::listening:
      return concat("Manager ", view.pid, " at ", socket, " has ", view.clients.size(),
                    view.clients.size() == 1 ? " client" : " clients",
                    view.clients.empty() ? ".\n" : ":\n", clients_text(view.clients, colored));
  }
  return {};
}

std::string totals_text(const Snapshot& snapshot) {
  const Sums sums = sum_up(snapshot.segments);
  return concat("Segments: ", sums.all.segments, " (", sums.live.segments, " live, ",
                sums.orphaned.segments, " orphaned, ", sums.unknown.segments, " unknown), ",
                bytes(sums.all.nbytes), ", of which ", bytes(sums.all.resident_bytes),
                " resident\n/dev/shm: ", bytes(snapshot.shm.size), ", of which ",
                bytes(snapshot.shm.shoal), " Shoal's, ", bytes(snapshot.shm.others), " others', ",
                bytes(snapshot.shm.free), " free\n");
}

}  // namespace

std::string to_text(const Snapshot& snapshot, bool grouped, bool colored) {
  return concat(grouped ? groups_text(snapshot, colored) : segments_text(snapshot, colored), '\n',
                manager_text(snapshot.manager, colored), '\n', totals_text(snapshot));
}

}  // namespace shoal::tools
