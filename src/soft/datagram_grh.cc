#include "soft/datagram_grh.h"

#include <cstring>

#include "wire/bytes.h"

namespace roce::soft {
namespace {

constexpr size_t kIpv4At = 20;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kMappedAt = 12;
constexpr uint32_t kUdpHeaderBytes = 8;
constexpr uint8_t kUdpProtocol = 17;
constexpr uint8_t kHopLimit = 64;

/// Ones' complement sum over an IPv4 header (RFC 1071); 0xFFFF over one with a right checksum.
uint16_t ipv4_sum(const uint8_t* header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpv4Bytes; i += 2) sum += wire::load_be16(header + i);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

void set_mapped(uint8_t out[16], const uint8_t address[4]) {
  std::memset(out, 0, 16);
  out[10] = out[11] = 0xFF;
  std::memcpy(out + kMappedAt, address, 4);
}

}  // namespace

void write_grh(const ReceivedBuffer& buffer, uint8_t out[kGrhBytes]) {
  std::memset(out, 0, kGrhBytes);
  const uint32_t udp_bytes = buffer.segment_bytes + kUdpHeaderBytes;
  if (buffer.flow.is_ipv4()) {
    uint8_t* ip = out + kIpv4At;
    ip[0] = 0x45;
    ip[1] = buffer.tos;
    wire::store_be16(ip + 2, static_cast<uint16_t>(kIpv4Bytes + udp_bytes));
    ip[6] = 0x40;  // DF.
    ip[8] = kHopLimit;
    ip[9] = kUdpProtocol;
    std::memcpy(ip + 12, buffer.flow.src + kMappedAt, 4);
    std::memcpy(ip + 16, buffer.flow.dst + kMappedAt, 4);
    wire::store_be16(ip + 10, static_cast<uint16_t>(~ipv4_sum(ip)));
    return;
  }
  wire::store_be32(out, 0x60000000u | static_cast<uint32_t>(buffer.tos) << 20);
  wire::store_be16(out + 4, static_cast<uint16_t>(udp_bytes));
  out[6] = kUdpProtocol;
  out[7] = kHopLimit;
  std::memcpy(out + 8, buffer.flow.src, 16);
  std::memcpy(out + 24, buffer.flow.dst, 16);
}

bool read_grh(const uint8_t grh[kGrhBytes], wire::Flow* flow, uint8_t* traffic_class,
              uint8_t* hop_limit, uint32_t* flow_label) {
  const uint8_t* ip = grh + kIpv4At;
  if (ip[0] == 0x45 && ipv4_sum(ip) == 0xFFFF) {
    set_mapped(flow->src, ip + 12);
    set_mapped(flow->dst, ip + 16);
    *traffic_class = ip[1];
    *hop_limit = ip[8];
    *flow_label = 0;
    return true;
  }
  if (grh[0] >> 4 != 6) return false;
  const uint32_t word = wire::load_be32(grh);
  std::memcpy(flow->src, grh + 8, 16);
  std::memcpy(flow->dst, grh + 24, 16);
  *traffic_class = static_cast<uint8_t>(word >> 20);
  *hop_limit = grh[7];
  *flow_label = word & 0xFFFFF;
  return true;
}

}  // namespace roce::soft
