// Packets from captures of hardware and from another implementation, and an ICRC computed bit by
// bit from whole IP packets: what the tests of src/wire compare with.
#ifndef ROCE_TESTS_WIRE_VECTORS_H_
#define ROCE_TESTS_WIRE_VECTORS_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "wire/icrc.h"

namespace roce::wire {

inline std::vector<uint8_t> from_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct Vector {
  const char* name;
  const char* hex;  // From the IP header; the last four bytes are the ICRC.
  uint32_t crc;  // zlib.crc32 of Python over eight 0xFF bytes and the masked packet without ICRC.
};

inline const Vector kVectors[] = {
    // Captured on a ConnectX-4 Lx (also in the tests of scapy).
    {"CnpFromHardware",
     "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff4000011800000000"
     "0000000000000000000000000000000082fd002a",
     0x2a00fd82},
    // UC SEND Only captured on hardware (also in the tests of scapy).
    {"UcSendFromHardware",
     "45010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf1710"
     "4630818be28935d90e9a95505401be885e50000078f353f3",
     0xf353f378},
    // Made and checked with scapy.
    {"RcSendOnlyPad3",
     "4502003412344000401114810a0000010a000002c00012b7002000000470ffff0000001180000001"
     "68656c6c6f000000fc144155",
     0x554114fc},
    {"RcAck",
     "4502003012344000401114850a0000010a000002c00012b7001c00001140ffff0000001200000001"
     "1f000001719ad93a",
     0x3ad99a71},
    {"Cnp",
     "45c2003c12344000401113b90a0000010a000002c00012b7002800008100ffff4000001200000000"
     "0000000000000000000000000000000036883f04",
     0x043f8836},
    {"Ipv6RcWriteOnly",
     "60200000002c1140fe800000000000000000000000000001fe80000000000000000000000000000"
     "2c00012b7002c00000a40ffff00000011800000021122334455667788deadbeef00000004010203"
     "04a367014c",
     0x4c0167a3},
};

inline size_t ip_header_bytes(const std::vector<uint8_t>& packet) {
  return packet[0] >> 4 == 6 ? 40 : 20;
}

inline std::span<const uint8_t> datagram_of(const std::vector<uint8_t>& packet) {
  return std::span(packet).subspan(ip_header_bytes(packet) + 8);
}

inline uint16_t be16(const std::vector<uint8_t>& bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

inline uint16_t ip_id_of(const std::vector<uint8_t>& packet) {
  return packet[0] >> 4 == 6 ? 0 : be16(packet, 4);
}

inline Flow flow_of(const std::vector<uint8_t>& packet) {
  Flow flow;
  const size_t ip = ip_header_bytes(packet);
  if (ip == 40) {
    std::memcpy(flow.src, &packet[8], 16);
    std::memcpy(flow.dst, &packet[24], 16);
  } else {
    flow.src[10] = flow.src[11] = flow.dst[10] = flow.dst[11] = 0xFF;
    std::memcpy(flow.src + 12, &packet[12], 4);
    std::memcpy(flow.dst + 12, &packet[16], 4);
  }
  flow.src_port = be16(packet, ip);
  flow.dst_port = be16(packet, ip + 2);
  return flow;
}

// CRC-32, one bit at a time.
inline uint32_t reference_crc32(std::span<const uint8_t> bytes) {
  uint32_t reg = 0xFFFFFFFF;
  for (uint8_t byte : bytes) {
    reg ^= byte;
    for (int bit = 0; bit < 8; ++bit) reg = (reg >> 1) ^ (reg & 1 ? 0xEDB88320 : 0);
  }
  return ~reg;
}

// ICRC from the bytes of a whole IP packet: shares nothing with src/wire.
inline uint32_t reference_icrc(std::vector<uint8_t> packet) {
  const size_t ip = ip_header_bytes(packet);
  if (ip == 40) {
    packet[0] |= 0x0F;
    packet[1] = packet[2] = packet[3] = packet[7] = 0xFF;
  } else {
    packet[1] = packet[8] = packet[10] = packet[11] = 0xFF;
  }
  packet[ip + 6] = packet[ip + 7] = 0xFF;
  packet[ip + 8 + 4] = 0xFF;
  std::vector<uint8_t> covered(8, 0xFF);
  covered.insert(covered.end(), packet.begin(), packet.end() - 4);
  return reference_crc32(covered);
}

}  // namespace roce::wire

#endif  // ROCE_TESTS_WIRE_VECTORS_H_
