// The ICRC. A Crc is a running value in zlib's convention (inverted register), which is also
// ISA-L's: crc32_gzip_refl inverts its argument on entry and its result on return, so values chain
// and the last one is the ICRC.
#include "wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "wire/bytes.h"
#include "wire/packet.h"

namespace roce::wire {
namespace {

// After the eight 0xFF bytes of the dummy LRH the register is 0xDEBB20E3.
constexpr Crc kAfterDummyLrh = ~0xDEBB20E3u;

constexpr size_t kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
constexpr size_t kMappedOffset = 12;  // Where the IPv4 address stands in an IPv4-mapped one.
constexpr uint8_t kProtocolUdp = 17;
// Copied to mask a byte of the BTH; as long as the headers of data packets, so that a short one is
// copied once and whole.
constexpr size_t kMaskedBytes = 44;

// Copying and reading back a piece of this size stays in the first-level cache.
constexpr size_t kCopyPieceBytes = 4096;

constexpr uint8_t kMappedPrefix[kMappedOffset] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

Crc update(Crc crc, const uint8_t* data, size_t bytes) {
  // The library's prototype takes a non-const pointer in some versions and does not write through
  // it.
  return crc32_gzip_refl(crc, const_cast<uint8_t*>(data), bytes);
}

// Each writes IP and UDP headers with the fields that routers change as ones, and returns their
// length.
size_t masked_ipv4(const Flow& flow, size_t udp_payload_bytes, uint16_t ip_id, uint8_t* out) {
  out[0] = 0x45;
  out[1] = 0xFF;  // DSCP and ECN
  store_be16(out + 2, static_cast<uint16_t>(kIpv4Bytes + kUdpBytes + udp_payload_bytes));
  store_be16(out + 4, ip_id);
  store_be16(out + 6, 0x4000);  // DF
  out[8] = 0xFF;                // TTL
  out[9] = kProtocolUdp;
  store_be16(out + 10, 0xFFFF);  // header checksum
  std::memcpy(out + 12, flow.src + kMappedOffset, 4);
  std::memcpy(out + 16, flow.dst + kMappedOffset, 4);
  return kIpv4Bytes;
}

size_t masked_ipv6(const Flow& flow, size_t udp_payload_bytes, uint8_t* out) {
  store_be32(out, 0x6FFFFFFF);  // traffic class and flow label
  store_be16(out + 4, static_cast<uint16_t>(kUdpBytes + udp_payload_bytes));
  out[6] = kProtocolUdp;
  out[7] = 0xFF;  // hop limit
  std::memcpy(out + 8, flow.src, 16);
  std::memcpy(out + 24, flow.dst, 16);
  return kIpv6Bytes;
}

size_t masked_ip_udp(const Flow& flow, size_t udp_payload_bytes, uint16_t ip_id, uint8_t* out) {
  const size_t ip_bytes = flow.is_ipv4() ? masked_ipv4(flow, udp_payload_bytes, ip_id, out)
                                         : masked_ipv6(flow, udp_payload_bytes, out);
  uint8_t* udp = out + ip_bytes;
  store_be16(udp, flow.src_port);
  store_be16(udp + 2, flow.dst_port);
  store_be16(udp + 4, static_cast<uint16_t>(kUdpBytes + udp_payload_bytes));
  store_be16(udp + 6, 0xFFFF);  // checksum
  return ip_bytes + kUdpBytes;
}

}  // namespace

bool Flow::is_ipv4() const { return std::memcmp(src, kMappedPrefix, kMappedOffset) == 0; }

Crc icrc_begin(const Flow& flow, size_t udp_payload_bytes, uint16_t ip_id) {
  uint8_t headers[kIpv6Bytes + kUdpBytes];
  return update(kAfterDummyLrh, headers, masked_ip_udp(flow, udp_payload_bytes, ip_id, headers));
}

Crc icrc_bth(Crc crc, std::span<const uint8_t> headers) {
  assert(headers.size() >= kBthBytes);
  uint8_t masked[kMaskedBytes];
  const size_t head = std::min(headers.size(), sizeof masked);
  std::memcpy(masked, headers.data(), head);
  masked[4] = 0xFF;
  crc = update(crc, masked, head);
  return head == headers.size() ? crc : update(crc, headers.data() + head, headers.size() - head);
}

Crc icrc_begin_bth(const Flow& flow, size_t udp_payload_bytes, uint16_t ip_id,
                   std::span<const uint8_t> headers) {
  assert(headers.size() >= kBthBytes);
  uint8_t masked[kIpv6Bytes + kUdpBytes + kMaskedBytes];
  const size_t ip_udp = masked_ip_udp(flow, udp_payload_bytes, ip_id, masked);
  const size_t head = std::min(headers.size(), kMaskedBytes);
  std::memcpy(masked + ip_udp, headers.data(), head);
  masked[ip_udp + 4] = 0xFF;
  const Crc crc = update(kAfterDummyLrh, masked, ip_udp + head);
  return head == headers.size() ? crc : update(crc, headers.data() + head, headers.size() - head);
}

Crc icrc_update(Crc crc, const void* data, size_t bytes) {
  return bytes == 0 ? crc : update(crc, static_cast<const uint8_t*>(data), bytes);
}

Crc icrc_copy(Crc crc, void* to, const void* from, size_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  auto* in = static_cast<const uint8_t*>(from);
  while (bytes != 0) {
    const size_t piece = std::min(bytes, kCopyPieceBytes);
    std::memcpy(out, in, piece);
    crc = update(crc, out, piece);
    out += piece;
    in += piece;
    bytes -= piece;
  }
  return crc;
}

uint32_t icrc_of_datagram(const Flow& flow, std::span<const uint8_t> datagram, uint16_t ip_id) {
  assert(datagram.size() >= kBthBytes + kIcrcBytes);
  return icrc_begin_bth(flow, datagram.size(), ip_id, datagram.first(datagram.size() - kIcrcBytes));
}

}  // namespace roce::wire
