// The opcode table: what follows the BTH for each of the 256 opcode values (specification 9.2,
// table 38; CNP: annex A17).
#include <array>

#include "wire/packet.h"

namespace roce::wire {
namespace {

constexpr unsigned kFirst = 1, kLast = 2, kOnly = kFirst | kLast;
constexpr unsigned kPayload = 4, kRequest = 8;

struct Row {
  Opcode opcode;
  HeaderLayout layout;
  unsigned flags;
};

constexpr Row kRows[] = {
    {Opcode::kRcSendFirst, HeaderLayout::kBth, kFirst | kPayload | kRequest},
    {Opcode::kRcSendMiddle, HeaderLayout::kBth, kPayload | kRequest},
    {Opcode::kRcSendLast, HeaderLayout::kBth, kLast | kPayload | kRequest},
    {Opcode::kRcSendLastImm, HeaderLayout::kImm, kLast | kPayload | kRequest},
    {Opcode::kRcSendOnly, HeaderLayout::kBth, kOnly | kPayload | kRequest},
    {Opcode::kRcSendOnlyImm, HeaderLayout::kImm, kOnly | kPayload | kRequest},
    {Opcode::kRcWriteFirst, HeaderLayout::kReth, kFirst | kPayload | kRequest},
    {Opcode::kRcWriteMiddle, HeaderLayout::kBth, kPayload | kRequest},
    {Opcode::kRcWriteLast, HeaderLayout::kBth, kLast | kPayload | kRequest},
    {Opcode::kRcWriteLastImm, HeaderLayout::kImm, kLast | kPayload | kRequest},
    {Opcode::kRcWriteOnly, HeaderLayout::kReth, kOnly | kPayload | kRequest},
    {Opcode::kRcWriteOnlyImm, HeaderLayout::kRethImm, kOnly | kPayload | kRequest},
    {Opcode::kRcReadRequest, HeaderLayout::kReth, kOnly | kRequest},
    {Opcode::kRcReadResponseFirst, HeaderLayout::kAeth, kFirst | kPayload},
    {Opcode::kRcReadResponseMiddle, HeaderLayout::kBth, kPayload},
    {Opcode::kRcReadResponseLast, HeaderLayout::kAeth, kLast | kPayload},
    {Opcode::kRcReadResponseOnly, HeaderLayout::kAeth, kOnly | kPayload},
    {Opcode::kRcAck, HeaderLayout::kAeth, kOnly},
    {Opcode::kRcAtomicAck, HeaderLayout::kAethAtomicAck, kOnly},
    {Opcode::kRcCompareSwap, HeaderLayout::kAtomic, kOnly | kRequest},
    {Opcode::kRcFetchAdd, HeaderLayout::kAtomic, kOnly | kRequest},
    {Opcode::kRcSendLastInvalidate, HeaderLayout::kIeth, kLast | kPayload | kRequest},
    {Opcode::kRcSendOnlyInvalidate, HeaderLayout::kIeth, kOnly | kPayload | kRequest},
    {Opcode::kRcFlush, HeaderLayout::kFethReth, kOnly | kRequest},
    {Opcode::kRcAtomicWrite, HeaderLayout::kReth, kOnly | kPayload | kRequest},
    {Opcode::kUdSendOnly, HeaderLayout::kDeth, kOnly | kPayload | kRequest},
    {Opcode::kUdSendOnlyImm, HeaderLayout::kDethImm, kOnly | kPayload | kRequest},
    {Opcode::kCnp, HeaderLayout::kCnp, kOnly},
    {Opcode::kRcSelectiveAck, HeaderLayout::kAethSack, kOnly},
};

constexpr OpcodeInfo expand(const Row& row) {
  OpcodeInfo info;
  info.known = true;
  info.layout = row.layout;
  info.first = row.flags & kFirst;
  info.last = row.flags & kLast;
  info.payload = row.flags & kPayload;
  info.request = row.flags & kRequest;
  info.header_bytes = kBthBytes;
  switch (row.layout) {
    case HeaderLayout::kBth:
      break;
    case HeaderLayout::kCnp:
      info.header_bytes += kCnpReservedBytes;
      break;
    case HeaderLayout::kImm:
      info.imm = true;
      break;
    case HeaderLayout::kIeth:
      info.ieth = true;
      break;
    case HeaderLayout::kReth:
      info.reth = true;
      break;
    case HeaderLayout::kRethImm:
      info.reth = info.imm = true;
      break;
    case HeaderLayout::kAeth:
      info.aeth = true;
      break;
    case HeaderLayout::kAethAtomicAck:
      info.aeth = info.atomic_ack_eth = true;
      break;
    case HeaderLayout::kAethSack:
      info.aeth = info.sack = true;
      break;
    case HeaderLayout::kAtomic:
      info.atomic_eth = true;
      break;
    case HeaderLayout::kDeth:
      info.deth = true;
      break;
    case HeaderLayout::kDethImm:
      info.deth = info.imm = true;
      break;
    case HeaderLayout::kFethReth:
      info.feth = info.reth = true;
      break;
  }
  info.header_bytes += info.deth * 8 + info.reth * 16 + info.aeth * 4 + info.atomic_eth * 28 +
                       info.atomic_ack_eth * 8 + info.imm * 4 + info.ieth * 4 + info.feth * 4 +
                       info.sack * (4 + 8 * kSackWords);
  return info;
}

constexpr std::array<OpcodeInfo, 256> make_table() {
  std::array<OpcodeInfo, 256> table{};
  for (const Row& row : kRows) table[static_cast<uint8_t>(row.opcode)] = expand(row);
  return table;
}

constexpr std::array<OpcodeInfo, 256> kTable = make_table();

constexpr bool fits() {
  for (const OpcodeInfo& info : kTable) {
    if (info.header_bytes > kMaxHeaderBytes || info.header_bytes % 4 != 0) return false;
  }
  return true;
}
static_assert(fits(), "headers of every opcode fit into kMaxHeaderBytes and keep 4-byte alignment");

}  // namespace

const OpcodeInfo& opcode_info(uint8_t opcode) { return kTable[opcode]; }

const char* opcode_name(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRcSendFirst:
      return "RC SEND First";
    case Opcode::kRcSendMiddle:
      return "RC SEND Middle";
    case Opcode::kRcSendLast:
      return "RC SEND Last";
    case Opcode::kRcSendLastImm:
      return "RC SEND Last with Immediate";
    case Opcode::kRcSendOnly:
      return "RC SEND Only";
    case Opcode::kRcSendOnlyImm:
      return "RC SEND Only with Immediate";
    case Opcode::kRcWriteFirst:
      return "RC RDMA WRITE First";
    case Opcode::kRcWriteMiddle:
      return "RC RDMA WRITE Middle";
    case Opcode::kRcWriteLast:
      return "RC RDMA WRITE Last";
    case Opcode::kRcWriteLastImm:
      return "RC RDMA WRITE Last with Immediate";
    case Opcode::kRcWriteOnly:
      return "RC RDMA WRITE Only";
    case Opcode::kRcWriteOnlyImm:
      return "RC RDMA WRITE Only with Immediate";
    case Opcode::kRcReadRequest:
      return "RC RDMA READ Request";
    case Opcode::kRcReadResponseFirst:
      return "RC RDMA READ response First";
    case Opcode::kRcReadResponseMiddle:
      return "RC RDMA READ response Middle";
    case Opcode::kRcReadResponseLast:
      return "RC RDMA READ response Last";
    case Opcode::kRcReadResponseOnly:
      return "RC RDMA READ response Only";
    case Opcode::kRcAck:
      return "RC Acknowledge";
    case Opcode::kRcAtomicAck:
      return "RC ATOMIC Acknowledge";
    case Opcode::kRcCompareSwap:
      return "RC CmpSwap";
    case Opcode::kRcFetchAdd:
      return "RC FetchAdd";
    case Opcode::kRcSendLastInvalidate:
      return "RC SEND Last with Invalidate";
    case Opcode::kRcSendOnlyInvalidate:
      return "RC SEND Only with Invalidate";
    case Opcode::kRcFlush:
      return "RC FLUSH";
    case Opcode::kRcAtomicWrite:
      return "RC ATOMIC WRITE";
    case Opcode::kUdSendOnly:
      return "UD SEND Only";
    case Opcode::kUdSendOnlyImm:
      return "UD SEND Only with Immediate";
    case Opcode::kCnp:
      return "CNP";
    case Opcode::kRcSelectiveAck:
      return "RC Selective Acknowledge";
  }
  return "unknown opcode";
}

}  // namespace roce::wire
