// The address blob: what a process publishes through the runtime's modex so that others can reach
// it.
//
// Versioned, fixed little-endian layout, bounds-checked and never trusted: decode accepts any bytes
// and answers with a sentence.
#ifndef ROCE_TRANSPORT_ADDRESS_H_
#define ROCE_TRANSPORT_ADDRESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "roce/status.h"

namespace roce::transport {

inline constexpr uint16_t kAddressVersion = 1;
inline constexpr int kMaxRails = 4;
inline constexpr int kMaxGidsPerRail = 8;
inline constexpr size_t kMaxHostNameBytes = 64;
inline constexpr uint32_t kMinMtuBytes = 256, kMaxMtuBytes = 65536;

struct GidAddress {
  std::array<uint8_t, 16> gid{};
  uint8_t type = 2;             ///< RoCE version: 1 or 2.
  uint8_t prefix_length = 128;  ///< Of the interface address, in bits of the 16-byte form.
  bool loopback = false;
};

struct RailAddress {
  std::vector<GidAddress> gids;  ///< 1..kMaxGidsPerRail, best first.
  uint32_t mtu_bytes = 1024;     ///< Largest path MTU, bytes.
  uint8_t traffic_class = 106;
  uint32_t control_qpn = 0;  ///< UD queue pair of the connection thread.
  uint32_t control_qkey = 0;
  uint16_t udp_port = 4791;
  uint8_t device_kind = 0;    ///< 0: RDMA device, 1: soft device.
  uint32_t capabilities = 0;  ///< roce::soft kCap... bits.
  uint32_t receive_budget_bytes = 0;
  uint32_t speed_mbps = 0;
};

struct Address {
  uint16_t version = kAddressVersion;
  uint64_t job_cookie = 0;
  std::array<uint8_t, 16> boot_id{};
  uint64_t netns_inode = 0;
  std::string host_name;  ///< At most 64 bytes; for messages only.
  uint32_t pid = 0;
  std::vector<RailAddress> rails;  ///< 1..kMaxRails.
};

/// What exceeds a limit above (rails, GIDs, length of the host name) is left out.
std::vector<uint8_t> encode(const Address& address);
/// kProtocol with a sentence (both values, where two differ) for anything but what encode makes.
/// Characters of the host name that a terminal would not print become '?'.
Result<Address> decode(std::span<const uint8_t> blob);

/// boot id and network-namespace inode of this process (/proc/sys/kernel/random/boot_id,
/// /proc/self/ns/net), host name and pid.
Address local_identity();
/// Same boot and same network namespace: loopback GIDs may be used.
bool same_network_host(const Address& a, const Address& b);

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_ADDRESS_H_
