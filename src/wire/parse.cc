// Bytes to Header.
#include "wire/bytes.h"
#include "wire/packet.h"

namespace roce::wire {
namespace {

void read_reth(const uint8_t* in, Header& header) {
  header.va = load_be64(in);
  header.rkey = load_be32(in + 8);
  header.dma_length = load_be32(in + 12);
}

void read_aeth(const uint8_t* in, Header& header) {
  header.syndrome = in[0];
  header.msn = load_be24_of32(in);
}

void read_deth(const uint8_t* in, Header& header) {
  header.qkey = load_be32(in);
  header.src_qpn = load_be24_of32(in + 4);
}

void read_atomic(const uint8_t* in, Header& header) {
  header.va = load_be64(in);
  header.rkey = load_be32(in + 8);
  header.swap_add = load_be64(in + 12);
  header.compare = load_be64(in + 20);
}

void read_sack(const uint8_t* in, Header& header) {
  header.sack_end = load_be24_of32(in);
  for (uint32_t i = 0; i < kSackWords; ++i) header.sack_map[i] = load_be64(in + 4 + 8 * i);
}

// `in` is the first byte after the BTH; the caller has checked that the headers of this layout are
// there.
void read_extended(HeaderLayout layout, const uint8_t* in, Header& header) {
  switch (layout) {
    case HeaderLayout::kBth:
    case HeaderLayout::kCnp:
      return;
    case HeaderLayout::kImm:
      header.imm = load_raw32(in);
      return;
    case HeaderLayout::kIeth:
      header.invalidate_rkey = load_be32(in);
      return;
    case HeaderLayout::kReth:
      read_reth(in, header);
      return;
    case HeaderLayout::kRethImm:
      read_reth(in, header);
      header.imm = load_raw32(in + 16);
      return;
    case HeaderLayout::kAeth:
      read_aeth(in, header);
      return;
    case HeaderLayout::kAethAtomicAck:
      read_aeth(in, header);
      header.atomic_original = load_be64(in + 4);
      return;
    case HeaderLayout::kAethSack:
      read_aeth(in, header);
      read_sack(in + 4, header);
      return;
    case HeaderLayout::kAtomic:
      read_atomic(in, header);
      return;
    case HeaderLayout::kDeth:
      read_deth(in, header);
      return;
    case HeaderLayout::kDethImm:
      read_deth(in, header);
      header.imm = load_raw32(in + 8);
      return;
    case HeaderLayout::kFethReth:
      header.flush_placement = in[3] & 0xF;
      header.flush_selectivity = (in[3] >> 4) & 3;
      read_reth(in + 4, header);
      return;
  }
}

}  // namespace

Parsed parse(std::span<const uint8_t> datagram) {
  Parsed out;
  if (datagram.size() < kBthBytes + kIcrcBytes) {
    out.error = ParseError::kTooShort;
    return out;
  }
  const uint8_t* in = datagram.data();
  const OpcodeInfo& info = opcode_info(in[0]);
  if (!info.known) {
    out.error = ParseError::kUnknownOpcode;
    return out;
  }
  if (in[1] & 0xF) {
    out.error = ParseError::kBadVersion;
    return out;
  }
  if (datagram.size() < info.header_bytes + kIcrcBytes) {
    out.error = ParseError::kTooShort;
    return out;
  }
  const size_t rest = datagram.size() - info.header_bytes - kIcrcBytes;
  const uint32_t pad = (in[1] >> 4) & 3;
  // Headers are multiples of four bytes, so with both conditions pad is exactly pad_bytes(payload).
  if (pad > rest || rest % 4 != 0 || (rest != 0 && !info.payload)) {
    out.error = ParseError::kBadPad;
    return out;
  }

  Header& header = out.header;
  header.opcode = static_cast<Opcode>(in[0]);
  header.solicited = in[1] & 0x80;
  header.migreq = in[1] & 0x40;
  header.pkey = load_be16(in + 2);
  header.fecn = in[4] & 0x80;
  header.becn = in[4] & 0x40;
  header.dest_qpn = load_be24_of32(in + 4);
  header.ack_req = in[8] & 0x80;
  header.psn = load_be24_of32(in + 8);
  read_extended(info.layout, in + kBthBytes, header);

  out.payload_offset = info.header_bytes;
  out.payload_length = static_cast<uint32_t>(rest - pad);
  out.pad = pad;
  return out;
}

const char* parse_error_name(ParseError error) {
  switch (error) {
    case ParseError::kNone:
      return "no error";
    case ParseError::kTooShort:
      return "shorter than its headers";
    case ParseError::kUnknownOpcode:
      return "unknown opcode";
    case ParseError::kBadVersion:
      return "transport version is not 0";
    case ParseError::kBadPad:
      return "pad count and length do not fit together";
  }
  return "unknown error";
}

}  // namespace roce::wire
