// Which ports of which devices can carry RoCE v2, and one sentence for each that cannot.
#ifndef ROCE_VERBS_DISCOVERY_H_
#define ROCE_VERBS_DISCOVERY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verbs/gid.h"
#include "verbs/table.h"

namespace roce::verbs {

struct Candidate {
  const Table* table = nullptr;
  std::string device;
  uint8_t port = 1;
  std::string netdev;  ///< Interface of the best GID; empty: not known.
  uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  uint32_t active_mtu_bytes = 0;
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::vector<Gid> gids;    ///< All that are usable at all, best first; the first is RoCE v2.
  uint32_t speed_mbps = 0;  ///< 0: not known.
  int distance = -1;        ///< See locality.h; -1: not known or not asked for.
};

struct Refusal {
  std::string device;  ///< Name of the table where there is no device at all.
  uint8_t port = 0;    ///< 0: the device as a whole.
  std::string reason;  ///< A sentence that starts with device and port, or table.
};

struct Discovery {
  std::vector<Candidate> candidates;
  std::vector<Refusal> refusals;
};

/// Looks at every port of every device of these tables, in their order. with_distance: also loads
/// the machine's topology (some 10 ms), if there is more than one candidate.
Discovery discover(std::span<const Table* const> tables, bool with_distance);

/// Sorts by distance (not known counts as near), then speed (fast first), keeping the order
/// otherwise.
void rank_candidates(std::vector<Candidate>& candidates);

/// Speed of a port by the enumerated link speed and width of query_port; 0 for values not known.
uint32_t port_speed_mbps(uint8_t active_speed, uint8_t active_width);

}  // namespace roce::verbs

#endif  // ROCE_VERBS_DISCOVERY_H_
