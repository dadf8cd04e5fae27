// Header to bytes.
#include <cassert>
#include <cstring>

#include "wire/bytes.h"
#include "wire/packet.h"

namespace roce::wire {
namespace {

void write_reth(const Header& header, uint8_t* out) {
  store_be64(out, header.va);
  store_be32(out + 8, header.rkey);
  store_be32(out + 12, header.dma_length);
}

void write_aeth(const Header& header, uint8_t* out) {
  store_be32(out, static_cast<uint32_t>(header.syndrome) << 24 | (header.msn & 0xFFFFFF));
}

void write_deth(const Header& header, uint8_t* out) {
  store_be32(out, header.qkey);
  store_be32(out + 4, header.src_qpn & 0xFFFFFF);
}

void write_atomic(const Header& header, uint8_t* out) {
  store_be64(out, header.va);
  store_be32(out + 8, header.rkey);
  store_be64(out + 12, header.swap_add);
  store_be64(out + 20, header.compare);
}

void write_sack(const Header& header, uint8_t* out) {
  store_be32(out, header.sack_end & kPsnMask);
  for (uint32_t i = 0; i < kSackWords; ++i) store_be64(out + 4 + 8 * i, header.sack_map[i]);
}

void write_extended(HeaderLayout layout, const Header& header, uint8_t* out) {
  switch (layout) {
    case HeaderLayout::kBth:
      return;
    case HeaderLayout::kCnp:
      std::memset(out, 0, kCnpReservedBytes);
      return;
    case HeaderLayout::kImm:
      store_raw32(out, header.imm);
      return;
    case HeaderLayout::kIeth:
      store_be32(out, header.invalidate_rkey);
      return;
    case HeaderLayout::kReth:
      write_reth(header, out);
      return;
    case HeaderLayout::kRethImm:
      write_reth(header, out);
      store_raw32(out + 16, header.imm);
      return;
    case HeaderLayout::kAeth:
      write_aeth(header, out);
      return;
    case HeaderLayout::kAethAtomicAck:
      write_aeth(header, out);
      store_be64(out + 4, header.atomic_original);
      return;
    case HeaderLayout::kAethSack:
      write_aeth(header, out);
      write_sack(header, out + 4);
      return;
    case HeaderLayout::kAtomic:
      write_atomic(header, out);
      return;
    case HeaderLayout::kDeth:
      write_deth(header, out);
      return;
    case HeaderLayout::kDethImm:
      write_deth(header, out);
      store_raw32(out + 8, header.imm);
      return;
    case HeaderLayout::kFethReth:
      store_be32(out, static_cast<uint32_t>(header.flush_selectivity & 3) << 4 |
                          (header.flush_placement & 0xFu));
      write_reth(header, out + 4);
      return;
  }
}

}  // namespace

size_t build(const Header& header, uint32_t payload_length, uint8_t* out) {
  const OpcodeInfo& info = opcode_info(header.opcode);
  assert(info.known);
  assert(info.payload || payload_length == 0);
  out[0] = static_cast<uint8_t>(header.opcode);
  out[1] = static_cast<uint8_t>(header.solicited << 7 | header.migreq << 6 |
                                pad_bytes(payload_length) << 4);
  store_be16(out + 2, header.pkey);
  store_be32(out + 4, static_cast<uint32_t>(header.fecn) << 31 |
                          static_cast<uint32_t>(header.becn) << 30 | (header.dest_qpn & 0xFFFFFF));
  store_be32(out + 8, static_cast<uint32_t>(header.ack_req) << 31 | (header.psn & kPsnMask));
  write_extended(info.layout, header, out + kBthBytes);
  return info.header_bytes;
}

size_t datagram_bytes(Opcode opcode, uint32_t payload_length) {
  return opcode_info(opcode).header_bytes + size_t{payload_length} + pad_bytes(payload_length) +
         kIcrcBytes;
}

}  // namespace roce::wire
