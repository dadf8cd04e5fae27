// Small tables and rules of the transport: path MTU, RNR NAK timer, local ACK timeout, UDP source
// port.
#include <algorithm>
#include <array>
#include <cstdint>

#include "wire/packet.h"

namespace roce::wire {
namespace {

constexpr int kMtuEnumMin = 1, kMtuEnumMax = 5;

// IPv6 40 + UDP 8 + BTH 12 + the largest extended headers 16 + ICRC 4: what kernel and NICs
// reserve.
constexpr uint32_t kHeadersForMtuBytes = 80;

// Microseconds by RNR NAK timer code (specification table 45).
constexpr std::array<uint32_t, 32> kRnrTimerUs = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

}  // namespace

uint32_t mtu_bytes(int mtu_enum) {
  return mtu_enum < kMtuEnumMin || mtu_enum > kMtuEnumMax ? 0 : 128u << mtu_enum;
}

int mtu_enum_for_interface(uint32_t interface_mtu_bytes) {
  for (int mtu = kMtuEnumMax; mtu >= kMtuEnumMin; --mtu) {
    if (mtu_bytes(mtu) + kHeadersForMtuBytes <= interface_mtu_bytes) return mtu;
  }
  return 0;
}

uint64_t rnr_timer_ns(uint8_t code) { return uint64_t{kRnrTimerUs[code & 31]} * 1000; }

uint64_t ack_timeout_ns(uint8_t exponent) {
  if (exponent == 0) return UINT64_MAX;
  return uint64_t{4096} << std::min<uint8_t>(exponent, 31);
}

uint16_t udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn) {
  uint32_t label = flow_label & 0xFFFFF;
  if (label == 0) {
    uint64_t mix = uint64_t{local_qpn} * remote_qpn;
    mix ^= mix >> 20;
    mix ^= mix >> 40;
    label = static_cast<uint32_t>(mix & 0xFFFFF);
  }
  const uint32_t low = label & 0x3FFF;
  const uint32_t high = (label & 0xFC000) >> 14;
  return static_cast<uint16_t>(0xC000 | (low ^ high));
}

}  // namespace roce::wire
