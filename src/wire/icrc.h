// The invariant CRC of RoCE v2 (annex A17.3.3): CRC-32 over a dummy LRH of ones, the IP and UDP
// headers and the packet, with the fields that routers change taken as ones. Computed on ISA-L.
#ifndef ROCE_WIRE_ICRC_H_
#define ROCE_WIRE_ICRC_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace roce::wire {

/// Addresses and ports of a packet, as they will stand in its IP and UDP headers. IPv4 addresses
/// are IPv4-mapped (::ffff:a.b.c.d), as GIDs are.
struct Flow {
  uint8_t src[16] = {};
  uint8_t dst[16] = {};
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  bool is_ipv4() const;
};

/// Running CRC. Value 0 of a fresh state is not meaningful: start with icrc_begin.
using Crc = uint32_t;

/// CRC over dummy LRH, IP header and UDP header. udp_payload_bytes: BTH to ICRC inclusive. ip_id:
/// IPv4 identification (DF is set); ignored for IPv6 (traffic class, flow label and hop limit are
/// masked).
Crc icrc_begin(const Flow& flow, size_t udp_payload_bytes, uint16_t ip_id);

/// Continues over the BTH and what follows it: the first call after icrc_begin must start at the
/// BTH (at least 12 bytes): byte 4 is taken as 0xFF.
Crc icrc_bth(Crc crc, std::span<const uint8_t> headers);

/// icrc_begin and icrc_bth in one: faster, since the CRC is started once.
Crc icrc_begin_bth(const Flow& flow, size_t udp_payload_bytes, uint16_t ip_id,
                   std::span<const uint8_t> headers);

/// Continues over payload or pad.
Crc icrc_update(Crc crc, const void* data, size_t bytes);

/// Continues over payload while copying it: one pass.
Crc icrc_copy(Crc crc, void* to, const void* from, size_t bytes);

/// The four bytes of the ICRC field, little-endian.
inline void icrc_store(Crc crc, uint8_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<uint8_t>(crc >> (8 * i));
}
inline uint32_t icrc_load(const uint8_t* in) {
  return static_cast<uint32_t>(in[0]) | static_cast<uint32_t>(in[1]) << 8 |
         static_cast<uint32_t>(in[2]) << 16 | static_cast<uint32_t>(in[3]) << 24;
}

/// Whole-packet form: ICRC of a datagram (BTH to ICRC inclusive; the last four bytes are not read).
uint32_t icrc_of_datagram(const Flow& flow, std::span<const uint8_t> datagram, uint16_t ip_id);

/// How the ICRC changes when the IPv4 identification of a packet goes from 0 to ip_id: CRC is
/// linear, so icrc(id) == icrc(0) ^ icrc_id_delta(id, bytes), where bytes is the UDP payload length
/// with the ICRC. Any id works; small ones are cheaper. What depends on the length alone is cached
/// per thread.
uint32_t icrc_id_delta(uint16_t ip_id, size_t udp_payload_bytes);

/// The identification that changes the ICRC by `difference` (received ICRC xor ICRC for
/// identification 0), or -1 if there is none: the inverse of icrc_id_delta, which is unique.
int32_t icrc_id_of(uint32_t difference, size_t udp_payload_bytes);

/// Whether `difference` is icrc_id_delta of some identification below limit. limit 65,536: any
/// identification (foreign senders): 16 bits of strength remain.
bool icrc_id_matches(uint32_t difference, size_t udp_payload_bytes, uint32_t limit);

}  // namespace roce::wire

#endif  // ROCE_WIRE_ICRC_H_
