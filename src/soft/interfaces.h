// Network interfaces of this host as RoCE ports: which are usable, their addresses as GIDs, and
// changes under way.
//
// All of it comes from rtnetlink and ioctl, which need no privilege and speak of this process's own
// network namespace; /sys may show another one's. Blocking calls for set-up, not for the data path.
#ifndef ROCE_SOFT_INTERFACES_H_
#define ROCE_SOFT_INTERFACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "roce/status.h"

namespace roce::soft {

struct Gid {
  uint8_t bytes[16];      ///< IPv4-mapped or IPv6.
  uint8_t prefix_length;  ///< Of the address, in bits of the 16-byte form (IPv4 /24: 120).
};

struct Interface {
  std::string name;
  uint32_t ifindex = 0;
  uint32_t mtu_bytes = 0;
  uint64_t speed_mbps = 0;  ///< 0 if the driver does not tell.
  bool loopback = false;
  bool running = false;   ///< Up and with carrier.
  std::vector<Gid> gids;  ///< IPv4 first, then global IPv6, then link-local. Addresses that IPv6
                          ///< has not yet found to be unique are left out.
};

/// Usable interfaces: up, with carrier, an address, MTU of at least 336 bytes, not docker*, virbr*,
/// cni*, veth ends inside bridges without addresses; loopback last. refusals (may be null): one
/// sentence for each interface that was left out.
std::vector<Interface> list_interfaces(std::vector<std::string>* refusals);

/// State of one interface now; running == false and no GIDs if it has gone.
Interface read_interface(uint32_t ifindex);

/// Name of the interface and source address that the kernel's route to `destination` uses
/// (RTM_GETROUTE); status says why there is none.
struct RouteAnswer {
  uint32_t ifindex = 0;
  uint8_t source[16] = {};
  bool local = false;      ///< The destination is one of this host's own addresses.
  uint32_t mtu_bytes = 0;  ///< Path or interface MTU.
};
/// ifindex: the interface to leave by, which a link-local destination needs; 0: any.
Result<RouteAnswer> route_to(const uint8_t destination[16], uint32_t ifindex = 0);

/// A netlink socket that becomes readable when links or addresses change; -1 if not allowed.
int open_change_monitor();
/// Reads what the monitor holds; true if links or addresses changed.
bool drain_change_monitor(int fd);

}  // namespace roce::soft

#endif  // ROCE_SOFT_INTERFACES_H_
