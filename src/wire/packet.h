// The RoCE v2 packet between the UDP header and the ICRC: opcodes, extended headers, build and
// parse.
//
// src/wire is the one place where bytes of the wire are built and read. Invariants:
// - no I/O, no clock, no allocation;
// - the parser reads only inside the span it is given, whatever the bytes are;
// - all fields of Header are in host byte order, except the immediate value, which is opaque
// (verbs: network order);
// - formats and values: InfiniBand specification volume 1, chapter 9, and annex A17 (RoCE v2).
#ifndef ROCE_WIRE_PACKET_H_
#define ROCE_WIRE_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace roce::wire {

inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr uint16_t kDefaultPkey = 0xFFFF;
inline constexpr size_t kBthBytes = 12;
inline constexpr size_t kIcrcBytes = 4;
inline constexpr size_t kCnpReservedBytes = 16;
/// BTH and any run of extended headers (the longest: BTH 12 + AETH 4 + SackETH 68).
inline constexpr size_t kMaxHeaderBytes = 84;
/// PSNs that a selective acknowledgement tells about, beyond the one that it expects.
inline constexpr uint32_t kSackPsns = 512;
inline constexpr uint32_t kSackWords = kSackPsns / 64;

/// Whole opcodes, transport bits included.
enum class Opcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImm = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAck = 0x11,
  kRcAtomicAck = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  kRcFlush = 0x1c,
  kRcAtomicWrite = 0x1d,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
  /// Not of the specification, which leaves 0xC0 to 0xFF to manufacturers: between devices that
  /// agreed on it. Like a NAK "PSN sequence error" for BTH.PSN, and a SackETH tells what has come
  /// beyond.
  kRcSelectiveAck = 0xc0,
};

/// The runs of headers that occur after a BTH; one value per run, so that parser and builder decide
/// once per packet.
enum class HeaderLayout : uint8_t {
  kBth,  ///< Nothing.
  kImm,
  kIeth,
  kReth,
  kRethImm,
  kAeth,
  kAethAtomicAck,
  kAtomic,
  kDeth,
  kDethImm,
  kFethReth,
  kCnp,  ///< 16 reserved bytes.
  kAethSack,
};

/// What an opcode is made of: which extended headers follow the BTH, and where in a message it
/// stands.
struct OpcodeInfo {
  bool known = false;
  HeaderLayout layout = HeaderLayout::kBth;
  bool deth = false, reth = false, aeth = false, atomic_eth = false, atomic_ack_eth = false,
       imm = false, ieth = false, feth = false, sack = false;
  bool payload = false;              ///< May carry payload.
  bool first = false, last = false;  ///< Begins / ends a message; ONLY has both.
  bool request = false;              ///< Requester to responder; false for responses and CNP.
  uint8_t header_bytes = 0;          ///< BTH and extended headers (CNP: and its reserved bytes).
};

/// Total over all 256 values; unknown opcodes have known == false.
const OpcodeInfo& opcode_info(uint8_t opcode);
inline const OpcodeInfo& opcode_info(Opcode opcode) {
  return opcode_info(static_cast<uint8_t>(opcode));
}
const char* opcode_name(Opcode opcode);  ///< As in the specification: "RC SEND First".

/// AETH syndromes (specification 9.7.5.2.2). The three upper bits give the kind.
inline constexpr uint8_t kAethAckNoCredit = 0x1F;  ///< ACK without end-to-end credit limit.
inline constexpr uint8_t kAethRnrNak = 0x20;       ///< Or'ed with the RNR timer code, 0..31.
inline constexpr uint8_t kAethNakSequence = 0x60;
inline constexpr uint8_t kAethNakInvalidRequest = 0x61;
inline constexpr uint8_t kAethNakRemoteAccess = 0x62;
inline constexpr uint8_t kAethNakRemoteOperation = 0x63;
inline constexpr uint8_t kAethNakInvalidRead = 0x64;

/// BTH and every extended header in one flat value; fields that the opcode does not have are
/// ignored.
struct Header {
  Opcode opcode = Opcode::kRcSendOnly;
  bool solicited = false;
  bool migreq = true;
  bool fecn = false;
  bool becn = false;
  bool ack_req = false;
  uint16_t pkey = kDefaultPkey;
  uint32_t dest_qpn = 0;  ///< 24 bits.
  uint32_t psn = 0;       ///< 24 bits.
  uint32_t imm = 0;       ///< Bytes as on the wire, not converted.
  // DETH
  uint32_t qkey = 0;
  uint32_t src_qpn = 0;  ///< 24 bits.
  // RETH (also the address of AtomicETH)
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t dma_length = 0;
  // AETH
  uint8_t syndrome = 0;
  uint32_t msn = 0;  ///< 24 bits.
  // AtomicETH, AtomicAckETH
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  uint64_t atomic_original = 0;
  // IETH
  uint32_t invalidate_rkey = 0;
  // FETH
  uint8_t flush_placement = 0;    ///< PLT, 4 bits.
  uint8_t flush_selectivity = 0;  ///< SEL, 2 bits.
  // SackETH
  uint32_t sack_end = 0;  ///< 24 bits: all below this PSN that the map lacks is missing.
  /// Bit i of word i / 64: the packet with PSN psn + 1 + i has come.
  uint64_t sack_map[kSackWords] = {};
};

enum class ParseError : uint8_t {
  kNone,
  kTooShort,  ///< Shorter than BTH and ICRC, or than the headers of its opcode.
  kUnknownOpcode,
  kBadVersion,  ///< BTH TVer is not 0.
  kBadPad,  ///< The pad count is larger than what follows the headers or does not fill up to four
            ///< bytes, or the opcode has no payload but bytes follow.
};
const char* parse_error_name(ParseError error);

struct Parsed {
  ParseError error = ParseError::kNone;
  Header header;
  uint32_t payload_offset = 0;  ///< From the start of the datagram.
  uint32_t payload_length = 0;  ///< Without pad and ICRC.
  uint32_t pad = 0;
};

/// Parses one UDP payload (BTH to ICRC). The ICRC is not checked here. CNP: its 16 reserved bytes
/// may hold anything.
Parsed parse(std::span<const uint8_t> datagram);

/// Writes BTH and extended headers of header.opcode to out (at least kMaxHeaderBytes; CNP:
/// kBthBytes + 16 reserved zero bytes are written, 28 in all) with the pad count that
/// payload_length needs, and returns how many bytes were written.
size_t build(const Header& header, uint32_t payload_length, uint8_t* out);

inline constexpr uint32_t pad_bytes(uint32_t payload_length) { return (0u - payload_length) & 3u; }

/// Bytes of the UDP payload of such a packet: headers, payload, pad, ICRC.
size_t datagram_bytes(Opcode opcode, uint32_t payload_length);

// ---- small tables and rules of the transport ----

/// 24-bit packet sequence numbers (specification 9.7.1): arithmetic and comparison modulo 2^24 with
/// a window of 2^23.
inline constexpr uint32_t kPsnMask = 0xFFFFFF;
inline constexpr uint32_t psn_add(uint32_t psn, uint32_t n) { return (psn + n) & kPsnMask; }
/// a - b as a signed distance in [-2^23, 2^23).
inline constexpr int32_t psn_diff(uint32_t a, uint32_t b) {
  return static_cast<int32_t>((a - b) << 8) >> 8;
}

/// enum ibv_mtu value (1..5) to bytes (256..4096), 0 for anything else.
uint32_t mtu_bytes(int mtu_enum);
/// Largest enum ibv_mtu value whose path MTU with 80 bytes of headers fits into an interface MTU; 0
/// if none (below 336).
int mtu_enum_for_interface(uint32_t interface_mtu_bytes);

/// RNR NAK timer code (0..31) to nanoseconds (specification table 45).
uint64_t rnr_timer_ns(uint8_t code);
/// Local ACK timeout exponent (0..31): 4.096 us x 2^n; 0 means no timeout (returns UINT64_MAX).
uint64_t ack_timeout_ns(uint8_t exponent);

/// UDP source port of a flow: 0xC000..0xFFFF from the 20-bit flow label; label 0 takes one from
/// both queue pair numbers (rule of ibv_flow_label_to_udp_sport and notes of rdma-core).
uint16_t udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);

}  // namespace roce::wire

#endif  // ROCE_WIRE_PACKET_H_
