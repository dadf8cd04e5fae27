#include "verbs/discovery.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "verbs/errors.h"
#include "verbs/locality.h"
#include "verbs/objects.h"
#include "wire/packet.h"

namespace roce::verbs {
namespace {

constexpr size_t kMaxGidEntries = 1024;
constexpr uint8_t kMappedPrefixBits = 96;

struct FreeIfaddrs {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

uint8_t count_bits(const uint8_t* mask, size_t bytes) {
  uint8_t bits = 0;
  for (size_t i = 0; i < bytes; ++i) bits += static_cast<uint8_t>(__builtin_popcount(mask[i]));
  return bits;
}

// Addresses of this host with their prefix lengths, as GIDs.
std::vector<Gid> host_addresses() {
  std::vector<Gid> out;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return out;
  const std::unique_ptr<ifaddrs, FreeIfaddrs> list(raw);
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    Gid gid;
    gid.ifindex = if_nametoindex(entry->ifa_name);
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address, mask;
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      std::memcpy(&mask, entry->ifa_netmask, sizeof mask);
      gid.bytes[10] = gid.bytes[11] = 0xFF;
      std::memcpy(&gid.bytes[12], &address.sin_addr, 4);
      uint8_t mask_bytes[4];
      std::memcpy(mask_bytes, &mask.sin_addr, 4);
      gid.prefix_length = static_cast<uint8_t>(kMappedPrefixBits + count_bits(mask_bytes, 4));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 address, mask;
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      std::memcpy(&mask, entry->ifa_netmask, sizeof mask);
      std::memcpy(gid.bytes.data(), &address.sin6_addr, 16);
      gid.prefix_length = count_bits(mask.sin6_addr.s6_addr, 16);
    } else {
      continue;
    }
    out.push_back(gid);
  }
  return out;
}

uint8_t prefix_of(const Gid& gid, const std::vector<Gid>& addresses) {
  for (const Gid& address : addresses) {
    if (address.bytes == gid.bytes && (gid.ifindex == 0 || gid.ifindex == address.ifindex)) {
      return address.prefix_length;
    }
  }
  return 128;
}

std::string interface_name(uint32_t ifindex) {
  char name[IF_NAMESIZE] = "";
  return ifindex != 0 && if_indextoname(ifindex, name) != nullptr ? name : "";
}

// The driver's word, which for Ethernet is exact; 0 where it has none (loopback and many virtual
// interfaces).
uint32_t interface_speed_mbps(const std::string& netdev) {
  long speed = 0;
  if (netdev.empty() || !(std::ifstream("/sys/class/net/" + netdev + "/speed") >> speed)) return 0;
  return speed > 0 ? static_cast<uint32_t>(speed) : 0;
}

const char* state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initializing";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "in an unknown state";
  }
}

// The examination of one device.
class Examiner {
 public:
  Examiner(const Table& table, std::string device, const std::vector<Gid>& addresses,
           Discovery& out)
      : table_(table), device_(std::move(device)), addresses_(addresses), out_(out) {}

  void examine(ibv_device* raw) {
    if (raw->transport_type != IBV_TRANSPORT_IB) {
      refuse(0, raw->transport_type == IBV_TRANSPORT_IWARP
                    ? "is an iWARP device, which cannot speak RoCE v2."
                    : "has a transport of its own, not RoCE v2.");
      return;
    }
    errno = 0;
    ibv_context* context = table_.open_device(raw);
    if (context == nullptr) {
      const int error = errno;
      refuse(0, "cannot be opened: " + errno_text(error) +
                    (error == EACCES || error == EPERM
                         ? "; this user needs read and write access to /dev/infiniband/uverbs*."
                         : "."));
      return;
    }
    examine(context);
    table_.close_device(context);
  }

 private:
  void examine(ibv_context* context) {
    ibv_device_attr attributes{};
    const int error = table_.query_device(context, &attributes);
    if (error != 0) {
      refuse(0, "query_device failed: " + errno_text(error) + ".");
      return;
    }
    entries_.resize(kMaxGidEntries);
    const ssize_t count =
        table_.query_gid_table(context, entries_.data(), entries_.size(), 0, sizeof(ibv_gid_entry));
    if (count < 0) {
      refuse(0, "its GID table cannot be read: " + errno_text(static_cast<int>(-count)) + ".");
      return;
    }
    entries_.resize(static_cast<size_t>(count));
    for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port) {
      examine_port(context, static_cast<uint8_t>(port));
    }
  }

  void examine_port(ibv_context* context, uint8_t port) {
    ibv_port_attr attributes{};
    const int error = table_.query_port(context, port, &attributes);
    if (error != 0) {
      refuse(port, "query_port failed: " + errno_text(error) + ".");
      return;
    }
    if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {
      refuse(port, "has link layer InfiniBand; RoCE v2 needs Ethernet.");
      return;
    }
    Candidate candidate;
    candidate.gids = usable_gids(port);
    if (!candidate.gids.empty()) candidate.netdev = interface_name(candidate.gids[0].ifindex);
    if (attributes.state != IBV_PORT_ACTIVE) {
      refuse(port, std::string("is ") + state_text(attributes.state) +
                       "; check cable, switch port and \"ip link set " +
                       (candidate.netdev.empty() ? "INTERFACE" : candidate.netdev) + " up\".");
      return;
    }
    if (candidate.gids.empty()) {
      refuse(port, "has no usable GID; give its network interface an IPv4 or IPv6 address.");
      return;
    }
    if (candidate.gids[0].type != GidType::kRoceV2) {
      refuse(port, "has GIDs of RoCE v1 only; RoCE v2 must be enabled in its driver or firmware.");
      return;
    }
    candidate.table = &table_;
    candidate.device = device_;
    candidate.port = port;
    candidate.link_layer = attributes.link_layer;
    candidate.active_mtu_bytes = wire::mtu_bytes(attributes.active_mtu);
    candidate.state = attributes.state;
    candidate.speed_mbps = interface_speed_mbps(candidate.netdev);
    if (candidate.speed_mbps == 0) {
      candidate.speed_mbps = port_speed_mbps(attributes.active_speed, attributes.active_width);
    }
    out_.candidates.push_back(std::move(candidate));
  }

  std::vector<Gid> usable_gids(uint8_t port) const {
    std::vector<Gid> gids;
    for (const ibv_gid_entry& entry : entries_) {
      if (entry.port_num != port) continue;
      Gid gid;
      std::copy_n(entry.gid.raw, gid.bytes.size(), gid.bytes.begin());
      if (gid_kind(gid.bytes) == GidKind::kUnusable) continue;
      gid.index = entry.gid_index;
      gid.type = static_cast<GidType>(entry.gid_type);
      gid.ifindex = entry.ndev_ifindex;
      gid.prefix_length = prefix_of(gid, addresses_);
      gids.push_back(gid);
    }
    rank_gids(gids);
    return gids;
  }

  void refuse(uint8_t port, const std::string& reason) {
    const std::string who =
        port == 0 ? device_ : device_ + " port " + std::to_string(static_cast<unsigned>(port));
    out_.refusals.push_back({device_, port, who + " " + reason});
  }

  const Table& table_;
  const std::string device_;
  const std::vector<Gid>& addresses_;
  Discovery& out_;
  std::vector<ibv_gid_entry> entries_;
};

void examine_table(const Table& table, const std::vector<Gid>& addresses, Discovery& out) {
  int count = 0;
  errno = 0;
  ibv_device** list = table.get_device_list(&count);
  const int error = list == nullptr ? errno : 0;
  if (list == nullptr || count == 0) {
    // ENOSYS: the kernel has no RDMA subsystem, which is the same as having no device.
    const bool plain = error == 0 || error == ENOSYS;
    out.refusals.push_back({table.name, 0,
                            std::string(table.name) + " has no device" +
                                (plain ? "." : ": " + errno_text(error) + ".")});
  }
  std::vector<std::string> left_out;
  table.interfaces_left_out(&left_out);
  for (std::string& sentence : left_out) {
    out.refusals.push_back({table.name, 0, std::string(table.name) + ": " + sentence + "."});
  }
  if (list == nullptr) return;
  for (int i = 0; i < count; ++i) {
    Examiner(table, table.get_device_name(list[i]), addresses, out).examine(list[i]);
  }
  table.free_device_list(list);
}

}  // namespace

uint32_t port_speed_mbps(uint8_t active_speed, uint8_t active_width) {
  uint32_t lanes = 0;
  switch (active_width) {
    case 1:
      lanes = 1;
      break;
    case 2:
      lanes = 4;
      break;
    case 4:
      lanes = 8;
      break;
    case 8:
      lanes = 12;
      break;
    case 16:
      lanes = 2;
      break;
  }
  switch (active_speed) {
    case 1:  // SDR
      return lanes * 2500;
    case 2:  // DDR
      return lanes * 5000;
    case 4:  // QDR
    case 8:  // FDR10
      return lanes * 10000;
    case 16:  // FDR
      return lanes * 14000;
    case 32:  // EDR
      return lanes * 25000;
    case 64:  // HDR
      return lanes * 50000;
    case 128:  // NDR
      return lanes * 100000;
  }
  return 0;
}

void rank_candidates(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    const int a_distance = std::max(a.distance, 0), b_distance = std::max(b.distance, 0);
    if (a_distance != b_distance) return a_distance < b_distance;
    return a.speed_mbps > b.speed_mbps;
  });
}

Discovery discover(std::span<const Table* const> tables, bool with_distance) {
  Discovery out;
  const std::vector<Gid> addresses = host_addresses();
  for (const Table* table : tables) examine_table(*table, addresses, out);
  if (with_distance && out.candidates.size() > 1) {
    const Locality locality;
    for (Candidate& candidate : out.candidates) {
      candidate.distance = locality.distance(candidate.device, candidate.netdev);
    }
  }
  return out;
}

}  // namespace roce::verbs
