#include "soft/interfaces.h"

#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "soft/interfaces_netlink.h"
#include "wire/packet.h"

namespace roce::soft {
namespace {

constexpr uint32_t kMinMtuBytes = 336;  // IB MTU 256 and 80 bytes of headers.
constexpr int kMappedPrefixBits = 96;

struct Link {
  Interface interface;
  bool up = false;
  bool enslaved = false;
};
using Links = std::map<uint32_t, Link>;

bool is_mapped(const Gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::memcmp(gid.bytes, kPrefix, sizeof kPrefix) == 0;
}

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xFE && (gid.bytes[1] & 0xC0) == 0x80; }

int rank(const Gid& gid) { return is_mapped(gid) ? 0 : is_link_local(gid) ? 2 : 1; }

// Answered by drivers without privilege; 0 if they do not know (SPEED_UNKNOWN is all ones).
uint64_t speed_mbps(const std::string& name) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  // The settings end in three masks of at most 127 words each.
  alignas(ethtool_link_settings) uint8_t memory[sizeof(ethtool_link_settings) + 3 * 127 * 4] = {};
  auto* settings = new (memory) ethtool_link_settings();
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(memory);
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  // The first call tells, as a negative number, how many words a mask has.
  bool known = ioctl(fd, SIOCETHTOOL, &request) == 0 && settings->link_mode_masks_nwords < 0;
  if (known) {
    settings->cmd = ETHTOOL_GLINKSETTINGS;
    settings->link_mode_masks_nwords = static_cast<int8_t>(-settings->link_mode_masks_nwords);
    known = ioctl(fd, SIOCETHTOOL, &request) == 0;
  }
  close(fd);
  if (!known || settings->speed == static_cast<uint32_t>(SPEED_UNKNOWN)) return 0;
  return settings->speed;
}

void take_link(const NetlinkMessage& message, Links& links) {
  if (message.type != RTM_NEWLINK || message.body.size() < sizeof(ifinfomsg)) return;
  const auto info = message.fixed<ifinfomsg>();
  const auto attributes = attributes_after(message, sizeof info);
  Link link;
  link.interface.ifindex = static_cast<uint32_t>(info.ifi_index);
  link.interface.loopback = (info.ifi_flags & IFF_LOOPBACK) != 0;
  link.up = (info.ifi_flags & IFF_UP) != 0;
  link.interface.running = link.up && (info.ifi_flags & IFF_RUNNING) != 0;
  link.interface.mtu_bytes = attribute_u32(find_attribute(attributes, IFLA_MTU), 0);
  link.enslaved = attribute_u32(find_attribute(attributes, IFLA_MASTER), 0) != 0;
  const auto name = find_attribute(attributes, IFLA_IFNAME);
  const auto* text = reinterpret_cast<const char*>(name.data());
  link.interface.name.assign(text, strnlen(text, name.size()));
  if (link.interface.name.empty()) return;
  links[link.interface.ifindex] = std::move(link);
}

void take_address(const NetlinkMessage& message, Links& links) {
  if (message.type != RTM_NEWADDR || message.body.size() < sizeof(ifaddrmsg)) return;
  const auto info = message.fixed<ifaddrmsg>();
  const auto attributes = attributes_after(message, sizeof info);
  const auto link = links.find(info.ifa_index);
  if (link == links.end()) return;
  // An address that duplicate detection has not cleared cannot be a source.
  const uint32_t flags = attribute_u32(find_attribute(attributes, IFA_FLAGS), info.ifa_flags);
  const bool optimistic = (flags & IFA_F_OPTIMISTIC) != 0;
  if ((flags & IFA_F_DADFAILED) != 0 || ((flags & IFA_F_TENTATIVE) != 0 && !optimistic)) return;
  // On point-to-point links IFA_ADDRESS is the other end.
  auto address = find_attribute(attributes, IFA_LOCAL);
  if (address.empty()) address = find_attribute(attributes, IFA_ADDRESS);
  Gid gid{};
  if (info.ifa_family == AF_INET && address.size() == 4 && info.ifa_prefixlen <= 32) {
    gid.bytes[10] = gid.bytes[11] = 0xFF;
    std::memcpy(gid.bytes + 12, address.data(), 4);
    gid.prefix_length = static_cast<uint8_t>(kMappedPrefixBits + info.ifa_prefixlen);
  } else if (info.ifa_family == AF_INET6 && address.size() == 16 && info.ifa_prefixlen <= 128) {
    std::memcpy(gid.bytes, address.data(), 16);
    gid.prefix_length = info.ifa_prefixlen;
  } else {
    return;
  }
  auto& gids = link->second.interface.gids;
  const auto same = [&](const Gid& other) {
    return std::memcmp(other.bytes, gid.bytes, sizeof gid.bytes) == 0;
  };
  if (std::none_of(gids.begin(), gids.end(), same)) gids.push_back(gid);
}

Status read_links(Links& links) {
  int error = 0;
  ifinfomsg link_request{};
  Status status = netlink_ask(
      NetlinkRequest(RTM_GETLINK, NLM_F_DUMP, &link_request, sizeof link_request),
      [&](const NetlinkMessage& message) { take_link(message, links); }, &error);
  if (!status) return status;
  ifaddrmsg address_request{};
  status = netlink_ask(
      NetlinkRequest(RTM_GETADDR, NLM_F_DUMP, &address_request, sizeof address_request),
      [&](const NetlinkMessage& message) { take_address(message, links); }, &error);
  for (auto& [index, link] : links) {
    auto& gids = link.interface.gids;
    std::stable_sort(gids.begin(), gids.end(),
                     [](const Gid& a, const Gid& b) { return rank(a) < rank(b); });
  }
  return status;
}

bool starts_with(const std::string& name, const char* prefix) { return name.rfind(prefix, 0) == 0; }

// Empty: usable.
std::string refusal(const Link& link) {
  const Interface& interface = link.interface;
  const std::string who = "interface " + interface.name;
  for (const char* prefix : {"docker", "virbr", "cni"}) {
    if (starts_with(interface.name, prefix)) {
      return who + " is a bridge of containers or virtual machines on this host only (" + prefix +
             "*)";
    }
  }
  if (!link.up) return who + " is down; ip link set " + interface.name + " up";
  if (!interface.running) return who + " has no carrier; look at its cable and the switch port";
  if (interface.gids.empty()) {
    return who + (link.enslaved
                      ? " is a port of a bridge or bond and has no address of its own"
                      : " has no address; ip address add ADDRESS/BITS dev " + interface.name);
  }
  if (interface.mtu_bytes < kMinMtuBytes) {
    return who + " has MTU " + std::to_string(interface.mtu_bytes) + ", the smallest usable is " +
           std::to_string(kMinMtuBytes) + " (path MTU 256 and 80 bytes of headers)";
  }
  return {};
}

}  // namespace

std::vector<Interface> list_interfaces(std::vector<std::string>* refusals) {
  Links links;
  if (Status status = read_links(links); !status) {
    if (refusals != nullptr) refusals->push_back("interfaces cannot be listed: " + status.text());
    return {};
  }
  std::vector<Interface> usable;
  for (auto& [index, link] : links) {
    if (const std::string reason = refusal(link); reason.empty()) {
      link.interface.speed_mbps = speed_mbps(link.interface.name);
      usable.push_back(std::move(link.interface));
    } else if (refusals != nullptr) {
      refusals->push_back(reason);
    }
  }
  std::stable_partition(usable.begin(), usable.end(),
                        [](const Interface& one) { return !one.loopback; });
  return usable;
}

Interface read_interface(uint32_t ifindex) {
  Links links;
  if (read_links(links)) {
    if (const auto link = links.find(ifindex); link != links.end()) {
      link->second.interface.speed_mbps = speed_mbps(link->second.interface.name);
      return std::move(link->second.interface);
    }
  }
  Interface gone;
  gone.ifindex = ifindex;
  return gone;
}

int open_change_monitor() {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return -1;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

bool drain_change_monitor(int fd) {
  // The messages are not read in detail: whoever asks reads the state itself. An overrun is a
  // change, too.
  static constexpr int kMaxReads = 1024;
  bool changed = false;
  char start[64];
  for (int i = 0; i < kMaxReads; ++i) {
    const ssize_t got = recv(fd, start, sizeof start, MSG_DONTWAIT);
    if (got >= 0 || errno == ENOBUFS) {
      changed = true;
    } else if (errno != EINTR) {
      break;
    }
  }
  return changed;
}

}  // namespace roce::soft
