// GIDs: kinds, order of preference, and which of ours talks to which of a peer's. Pure functions.
#ifndef ROCE_VERBS_GID_H_
#define ROCE_VERBS_GID_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "roce/status.h"

namespace roce::verbs {

using GidBytes = std::array<uint8_t, 16>;

/// Values of ibv_gid_type.
enum class GidType : uint8_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };

struct Gid {
  GidBytes bytes{};    ///< IPv6, or IPv4-mapped.
  uint32_t index = 0;  ///< In the port's GID table.
  GidType type = GidType::kRoceV2;
  uint32_t ifindex = 0;         ///< Of its network interface; 0: not known.
  uint8_t prefix_length = 128;  ///< Of the interface address, in bits of the 16-byte form (IPv4
                                ///< /24: 120); 128: not known.
};

/// What kind of address, best first.
enum class GidKind : uint8_t {
  kIpv4,
  kGlobalIpv6,
  kLinkLocal,  ///< fe80::/10 and 169.254/16.
  kLoopback,   ///< ::1 and 127/8: reaches this network namespace only.
  kUnusable,   ///< Unspecified or multicast.
};
GidKind gid_kind(const GidBytes& bytes);

/// "10.0.0.1", "fe80::1".
std::string gid_text(const GidBytes& bytes);
/// "10.0.0.1 (index 3, RoCE v2)".
std::string gid_text(const Gid& gid);
/// "peer address from GID index 3 of port 1, traffic class 106, hop limit 64": for messages about
/// address handles and paths.
std::string address_text(const ibv_ah_attr& address);

/// Both addresses agree in the first prefix_length bits.
bool same_subnet(const GidBytes& a, const GidBytes& b, uint8_t prefix_length);

/// Stable sort, best first: RoCE v2 before all others, then by GidKind.
void rank_gids(std::vector<Gid>& gids);

struct GidPair {
  size_t local = 0;  ///< Positions in the spans given, not GID indices.
  size_t peer = 0;
  bool same_subnet = false;
};

/// The pair to connect with: both RoCE v2, of one kind and family; a shared subnet (by the shorter
/// of both prefixes) first, then other routable addresses, IPv4 before IPv6; then link-local;
/// loopback last and only if the peer is on this host and in this network namespace. Then earlier
/// positions. Both sides come to the same pair from the same two lists. kUnreachable names the
/// addresses of both sides.
Result<GidPair> select_gids(std::span<const Gid> local, std::span<const Gid> peer, bool same_host);

/// The same for one GID of the peer; the position in `local`.
Result<size_t> select_local_gid(std::span<const Gid> local, const GidBytes& peer, bool same_host);

}  // namespace roce::verbs

#endif  // ROCE_VERBS_GID_H_
