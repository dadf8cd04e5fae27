#include "verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

namespace roce::verbs {
namespace {

constexpr size_t kMappedOffset = 12;
constexpr uint8_t kMappedPrefix[kMappedOffset] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

bool is_ipv4(const GidBytes& bytes) {
  return std::memcmp(bytes.data(), kMappedPrefix, kMappedOffset) == 0;
}

GidKind ipv4_kind(const uint8_t* address) {
  if (address[0] == 0 || address[0] >= 224) return GidKind::kUnusable;
  if (address[0] == 127) return GidKind::kLoopback;
  if (address[0] == 169 && address[1] == 254) return GidKind::kLinkLocal;
  return GidKind::kIpv4;
}

GidKind ipv6_kind(const GidBytes& bytes) {
  if (bytes[0] == 0xFF) return GidKind::kUnusable;
  if (bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80) return GidKind::kLinkLocal;
  if (std::all_of(bytes.begin(), bytes.end() - 1, [](uint8_t byte) { return byte == 0; })) {
    if (bytes[15] == 0) return GidKind::kUnusable;
    if (bytes[15] == 1) return GidKind::kLoopback;
  }
  return GidKind::kGlobalIpv6;
}

bool on_one_subnet(const Gid& a, const Gid& b) {
  return same_subnet(a.bytes, b.bytes, std::min(a.prefix_length, b.prefix_length));
}

const char* type_text(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown type";
}

std::string list_text(std::span<const Gid> gids) {
  std::string out;
  for (const Gid& gid : gids) {
    out += (out.empty() ? "" : ", ") + gid_text(gid.bytes);
    if (gid.type != GidType::kRoceV2) out += std::string(" (") + type_text(gid.type) + ")";
  }
  return out.empty() ? "none" : out;
}

// How far a pair is from the best; none if the two cannot talk.
enum Distance { kSameSubnet, kRouted, kSameLinkPerhaps, kWithinHost };
std::optional<Distance> distance(const Gid& local, const Gid& peer, bool same_host) {
  if (local.type != GidType::kRoceV2 || peer.type != GidType::kRoceV2) return std::nullopt;
  const GidKind kind = gid_kind(local.bytes);
  if (kind != gid_kind(peer.bytes) || is_ipv4(local.bytes) != is_ipv4(peer.bytes)) {
    return std::nullopt;
  }
  switch (kind) {
    case GidKind::kIpv4:
    case GidKind::kGlobalIpv6:
      return on_one_subnet(local, peer) ? kSameSubnet : kRouted;
    case GidKind::kLinkLocal:
      // All link-local addresses share a prefix, which says nothing about sharing a link.
      return kSameLinkPerhaps;
    case GidKind::kLoopback:
      if (same_host) return kWithinHost;
      break;
    case GidKind::kUnusable:
      break;
  }
  return std::nullopt;
}

}  // namespace

GidKind gid_kind(const GidBytes& bytes) {
  return is_ipv4(bytes) ? ipv4_kind(bytes.data() + kMappedOffset) : ipv6_kind(bytes);
}

std::string gid_text(const GidBytes& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(bytes)) {
    inet_ntop(AF_INET, bytes.data() + kMappedOffset, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  }
  return text;
}

std::string gid_text(const Gid& gid) {
  return gid_text(gid.bytes) + " (index " + std::to_string(gid.index) + ", " + type_text(gid.type) +
         ")";
}

std::string address_text(const ibv_ah_attr& address) {
  GidBytes bytes;
  std::copy_n(address.grh.dgid.raw, bytes.size(), bytes.begin());
  return gid_text(bytes) + " from GID index " + std::to_string(address.grh.sgid_index) +
         " of port " + std::to_string(address.port_num) + ", traffic class " +
         std::to_string(address.grh.traffic_class) + ", hop limit " +
         std::to_string(address.grh.hop_limit);
}

bool same_subnet(const GidBytes& a, const GidBytes& b, uint8_t prefix_length) {
  const size_t bits = std::min<size_t>(prefix_length, 128);
  if (std::memcmp(a.data(), b.data(), bits / 8) != 0) return false;
  if (bits % 8 == 0) return true;
  return ((a[bits / 8] ^ b[bits / 8]) >> (8 - bits % 8)) == 0;
}

void rank_gids(std::vector<Gid>& gids) {
  const auto key = [](const Gid& gid) {
    return std::make_tuple(gid.type != GidType::kRoceV2, gid_kind(gid.bytes));
  };
  std::stable_sort(gids.begin(), gids.end(),
                   [&key](const Gid& a, const Gid& b) { return key(a) < key(b); });
}

Result<GidPair> select_gids(std::span<const Gid> local, std::span<const Gid> peer, bool same_host) {
  // Every part of the key is the same seen from the peer, so that both sides come to one pair.
  using Key = std::tuple<Distance, GidKind, size_t, GidBytes>;
  std::optional<Key> best;
  GidPair pair;
  for (size_t i = 0; i < local.size(); ++i) {
    for (size_t j = 0; j < peer.size(); ++j) {
      const std::optional<Distance> found = distance(local[i], peer[j], same_host);
      if (!found) continue;
      const Key key(*found, gid_kind(local[i].bytes), i + j,
                    std::min(local[i].bytes, peer[j].bytes));
      if (best && *best <= key) continue;
      best = key;
      pair = {i, j, on_one_subnet(local[i], peer[j])};
    }
  }
  if (best) return pair;
  return Status(Code::kUnreachable,
                "no address of this host and of the peer fit together: here " + list_text(local) +
                    "; peer " + list_text(peer) +
                    (same_host ? "" : " (on another host, so loopback addresses do not count)") +
                    ". Give both network interfaces addresses of one family (IPv4 or IPv6).");
}

Result<size_t> select_local_gid(std::span<const Gid> local, const GidBytes& peer, bool same_host) {
  Gid other;
  other.bytes = peer;
  const Result<GidPair> pair = select_gids(local, {&other, 1}, same_host);
  if (!pair) return pair.status();
  return pair.value().local;
}

}  // namespace roce::verbs
