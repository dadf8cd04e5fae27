#include "wire/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "vectors.h"

namespace roce::wire {
namespace {

constexpr uint32_t kSeed = 20240612;

// Bytes of headers after the BTH (notes of the specification's tables 38 and following), and
// whether payload may follow.
struct Expected {
  size_t extended_bytes;
  bool payload;
  bool first, last, request;
};

const std::map<int, Expected> kExpected = {
    {0x00, {0, true, true, false, true}},   {0x01, {0, true, false, false, true}},
    {0x02, {0, true, false, true, true}},   {0x03, {4, true, false, true, true}},
    {0x04, {0, true, true, true, true}},    {0x05, {4, true, true, true, true}},
    {0x06, {16, true, true, false, true}},  {0x07, {0, true, false, false, true}},
    {0x08, {0, true, false, true, true}},   {0x09, {4, true, false, true, true}},
    {0x0a, {16, true, true, true, true}},   {0x0b, {20, true, true, true, true}},
    {0x0c, {16, false, true, true, true}},  {0x0d, {4, true, true, false, false}},
    {0x0e, {0, true, false, false, false}}, {0x0f, {4, true, false, true, false}},
    {0x10, {4, true, true, true, false}},   {0x11, {4, false, true, true, false}},
    {0x12, {12, false, true, true, false}}, {0x13, {28, false, true, true, true}},
    {0x14, {28, false, true, true, true}},  {0x16, {4, true, false, true, true}},
    {0x17, {4, true, true, true, true}},    {0x1c, {20, false, true, true, true}},
    {0x1d, {16, true, true, true, true}},   {0x64, {8, true, true, true, true}},
    {0x65, {12, true, true, true, true}},   {0x81, {16, false, true, true, false}},
    {0xc0, {72, false, true, true, false}},
};

Header distinct_header(Opcode opcode) {
  Header header;
  header.opcode = opcode;
  header.solicited = true;
  header.migreq = false;
  header.ack_req = true;
  header.becn = true;
  header.pkey = 0x8123;
  header.dest_qpn = 0xABCDEF;
  header.psn = 0xFEDCBA;
  header.imm = 0x04030201;
  header.qkey = 0x11223344;
  header.src_qpn = 0x556677;
  header.va = 0x0123456789ABCDEF;
  header.rkey = 0xCAFEBABE;
  header.dma_length = 0x8BADF00D;
  header.syndrome = 0x65;
  header.msn = 0x998877;
  header.swap_add = 0xA1A2A3A4A5A6A7A8;
  header.compare = 0xB1B2B3B4B5B6B7B8;
  header.atomic_original = 0xC1C2C3C4C5C6C7C8;
  header.invalidate_rkey = 0xD1D2D3D4;
  header.flush_placement = 0x3;
  header.flush_selectivity = 0x2;
  return header;
}

// A datagram of this opcode with payload bytes 0xEE, pad and a blank ICRC.
std::vector<uint8_t> datagram(const Header& header, uint32_t payload) {
  uint8_t headers[kMaxHeaderBytes];
  const size_t bytes = build(header, payload, headers);
  std::vector<uint8_t> out(headers, headers + bytes);
  out.resize(bytes + payload, 0xEE);
  out.resize(out.size() + pad_bytes(payload) + kIcrcBytes);
  return out;
}

TEST(Opcode, TableHasTheHeadersOfTheSpecification) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const auto expected = kExpected.find(opcode);
    ASSERT_EQ(info.known, expected != kExpected.end()) << opcode;
    const std::string name = opcode_name(static_cast<Opcode>(opcode));
    EXPECT_EQ(name == "unknown opcode", !info.known) << opcode;
    if (!info.known) continue;
    EXPECT_EQ(info.header_bytes, 12 + expected->second.extended_bytes) << name;
    EXPECT_EQ(info.payload, expected->second.payload) << name;
    EXPECT_EQ(info.first, expected->second.first) << name;
    EXPECT_EQ(info.last, expected->second.last) << name;
    EXPECT_EQ(info.request, expected->second.request) << name;
    EXPECT_EQ(info.imm, name.find("Immediate") != std::string::npos) << name;
    EXPECT_EQ(info.ieth, name.find("Invalidate") != std::string::npos) << name;
  }
}

TEST(Packet, CapturesComeBackBitForBit) {
  for (const Vector& vector : kVectors) {
    const std::vector<uint8_t> packet = from_hex(vector.hex);
    const auto bytes = datagram_of(packet);
    const Parsed parsed = parse(bytes);
    if (vector.name == std::string("UcSendFromHardware")) {
      EXPECT_EQ(parsed.error, ParseError::kUnknownOpcode);  // UC is not spoken here.
      continue;
    }
    ASSERT_EQ(parsed.error, ParseError::kNone) << vector.name;
    uint8_t headers[kMaxHeaderBytes];
    ASSERT_EQ(build(parsed.header, parsed.payload_length, headers), parsed.payload_offset);
    EXPECT_EQ(0, std::memcmp(headers, bytes.data(), parsed.payload_offset)) << vector.name;
    EXPECT_EQ(datagram_bytes(parsed.header.opcode, parsed.payload_length), bytes.size());
  }
}

TEST(Packet, CaptureOfRcSendHasItsFields) {
  const Parsed parsed = parse(datagram_of(from_hex(kVectors[2].hex)));
  EXPECT_EQ(parsed.header.opcode, Opcode::kRcSendOnly);
  EXPECT_EQ(parsed.header.dest_qpn, 0x11u);
  EXPECT_EQ(parsed.header.psn, 1u);
  EXPECT_TRUE(parsed.header.ack_req);
  EXPECT_TRUE(parsed.header.migreq);
  EXPECT_FALSE(parsed.header.solicited);
  EXPECT_EQ(parsed.header.pkey, 0xFFFF);
  EXPECT_EQ(parsed.payload_offset, 12u);
  EXPECT_EQ(parsed.payload_length, 5u);
  EXPECT_EQ(parsed.pad, 3u);
}

TEST(Packet, CaptureOfAckAndCnpAndWriteHaveTheirFields) {
  const Header ack = parse(datagram_of(from_hex(kVectors[3].hex))).header;
  EXPECT_EQ(ack.syndrome, kAethAckNoCredit);
  EXPECT_EQ(ack.msn, 1u);
  const Header cnp = parse(datagram_of(from_hex(kVectors[0].hex))).header;
  EXPECT_TRUE(cnp.becn);
  EXPECT_FALSE(cnp.fecn);
  EXPECT_FALSE(cnp.migreq);
  EXPECT_EQ(cnp.dest_qpn, 0x118u);
  const Header write = parse(datagram_of(from_hex(kVectors[5].hex))).header;
  EXPECT_EQ(write.va, 0x1122334455667788u);
  EXPECT_EQ(write.rkey, 0xDEADBEEFu);
  EXPECT_EQ(write.dma_length, 4u);
}

TEST(Packet, SelectiveAckSaysExpectedPsnEndAndMapInThisOrder) {
  Header header;
  header.opcode = Opcode::kRcSelectiveAck;
  header.psn = 0x010203;
  header.syndrome = kAethNakSequence;
  header.sack_end = 0xA0B0C0;
  header.sack_map[0] = 0x1122334455667788;
  header.sack_map[kSackWords - 1] = 1;
  const auto bytes = datagram(header, 0);
  ASSERT_EQ(bytes.size(), 12u + 4 + 4 + 64 + 4);
  const auto at = [&](size_t from, size_t count) {
    return std::vector<uint8_t>(bytes.begin() + from, bytes.begin() + from + count);
  };
  EXPECT_EQ(at(16, 4), (std::vector<uint8_t>{0, 0xA0, 0xB0, 0xC0}));
  EXPECT_EQ(at(20, 8), (std::vector<uint8_t>{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}));
  EXPECT_EQ(at(76, 8), (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0, 1}));
  const Header back = parse(bytes).header;
  EXPECT_EQ(back.sack_end, header.sack_end);
  EXPECT_TRUE(std::equal(std::begin(back.sack_map), std::end(back.sack_map), header.sack_map));
}

TEST(Packet, EveryFieldStandsWhereTheSpecificationPutsIt) {
  const std::string bth_rest =
      "8123"
      "40abcdef"
      "80fedcba";
  const std::string reth =
      "0123456789abcdef"
      "cafebabe"
      "8badf00d";
  const std::string imm = "01020304", aeth = "65998877", deth = "1122334400556677";
  const std::string atomic =
      "0123456789abcdef"
      "cafebabe"
      "a1a2a3a4a5a6a7a8"
      "b1b2b3b4b5b6b7b8";
  const std::map<Opcode, std::string> expected = {
      {Opcode::kRcSendOnly, ""},
      {Opcode::kRcSendOnlyImm, imm},
      {Opcode::kRcSendLastInvalidate, "d1d2d3d4"},
      {Opcode::kRcWriteFirst, reth},
      {Opcode::kRcWriteOnlyImm, reth + imm},
      {Opcode::kRcReadRequest, reth},
      {Opcode::kRcReadResponseLast, aeth},
      {Opcode::kRcAck, aeth},
      {Opcode::kRcAtomicAck, aeth + "c1c2c3c4c5c6c7c8"},
      {Opcode::kRcCompareSwap, atomic},
      {Opcode::kRcFetchAdd, atomic},
      {Opcode::kRcFlush, "00000023" + reth},
      {Opcode::kRcAtomicWrite, reth},
      {Opcode::kUdSendOnly, deth},
      {Opcode::kUdSendOnlyImm, deth + imm},
      {Opcode::kCnp, std::string(32, '0')},
  };
  for (const auto& [opcode, extended] : expected) {
    const std::vector<uint8_t> built = datagram(distinct_header(opcode), 0);
    std::vector<uint8_t> wanted = {static_cast<uint8_t>(opcode), 0x80};
    for (uint8_t byte : from_hex(bth_rest + extended + "00000000")) wanted.push_back(byte);
    EXPECT_EQ(built, wanted) << opcode_name(opcode);
  }
}

TEST(Packet, BitsOfTheBthAreIndependent) {
  for (int flags = 0; flags < 32; ++flags) {
    Header header;
    header.solicited = flags & 1;
    header.migreq = flags & 2;
    header.fecn = flags & 4;
    header.becn = flags & 8;
    header.ack_req = flags & 16;
    const std::vector<uint8_t> bytes = datagram(header, 2);
    EXPECT_EQ(bytes[1], (flags & 1 ? 0x80 : 0) | (flags & 2 ? 0x40 : 0) | 0x20);
    EXPECT_EQ(bytes[4], (flags & 4 ? 0x80 : 0) | (flags & 8 ? 0x40 : 0));
    EXPECT_EQ(bytes[8], flags & 16 ? 0x80 : 0);
    const Header back = parse(bytes).header;
    EXPECT_EQ(back.solicited, header.solicited);
    EXPECT_EQ(back.migreq, header.migreq);
    EXPECT_EQ(back.fecn, header.fecn);
    EXPECT_EQ(back.becn, header.becn);
    EXPECT_EQ(back.ack_req, header.ack_req);
  }
}

TEST(Packet, FieldsOf24BitsIgnoreWhatIsAbove) {
  Header header;
  header.opcode = Opcode::kUdSendOnly;
  header.dest_qpn = 0xFF000001;
  header.psn = 0xFF000002;
  header.src_qpn = 0xFF000003;
  const Parsed parsed = parse(datagram(header, 0));
  EXPECT_EQ(parsed.header.dest_qpn, 1u);
  EXPECT_EQ(parsed.header.psn, 2u);
  EXPECT_EQ(parsed.header.src_qpn, 3u);
  EXPECT_FALSE(parsed.header.fecn);
  EXPECT_FALSE(parsed.header.ack_req);
}

TEST(Packet, ReservedBitsAreIgnored) {
  std::vector<uint8_t> bytes = datagram(Header{}, 4);
  bytes[4] |= 0x3F;
  bytes[8] |= 0x7F;
  const Parsed parsed = parse(bytes);
  EXPECT_EQ(parsed.error, ParseError::kNone);
  EXPECT_FALSE(parsed.header.fecn);
  EXPECT_FALSE(parsed.header.becn);
  EXPECT_FALSE(parsed.header.ack_req);
}

TEST(Packet, CnpMayCarryAnythingInItsReservedBytes) {
  Header header;
  header.opcode = Opcode::kCnp;
  std::vector<uint8_t> bytes = datagram(header, 0);
  ASSERT_EQ(bytes.size(), 32u);
  std::fill(bytes.begin() + 12, bytes.begin() + 28, 0xFF);
  EXPECT_EQ(parse(bytes).error, ParseError::kNone);
}

TEST(Parse, RefusesOtherTransportVersions) {
  std::vector<uint8_t> bytes = datagram(Header{}, 4);
  for (int version = 1; version < 16; ++version) {
    bytes[1] = static_cast<uint8_t>((bytes[1] & 0xF0) | version);
    EXPECT_EQ(parse(bytes).error, ParseError::kBadVersion);
  }
}

TEST(Parse, RefusesPadThatIsNotThere) {
  std::vector<uint8_t> bytes = datagram(Header{}, 0);
  bytes[1] |= 0x10;
  EXPECT_EQ(parse(bytes).error, ParseError::kBadPad);
  // Payload that does not end at four bytes.
  bytes = datagram(Header{}, 8);
  bytes.pop_back();
  EXPECT_EQ(parse(bytes).error, ParseError::kBadPad);
}

TEST(Parse, RefusesPayloadWhereNoneBelongs) {
  for (const auto& [value, expected] : kExpected) {
    Header header;
    header.opcode = static_cast<Opcode>(value);
    std::vector<uint8_t> bytes = datagram(header, 0);
    bytes.resize(bytes.size() + 4);
    EXPECT_EQ(parse(bytes).error, expected.payload ? ParseError::kNone : ParseError::kBadPad)
        << opcode_name(header.opcode);
  }
}

// Run under AddressSanitizer: the bytes end where the heap block ends.
TEST(Parse, NeverReadsOutsideAndIsConsistentForAnyOpcodeAndLength) {
  std::mt19937 random(kSeed);
  for (size_t length = 0; length <= 128; ++length) {
    const std::unique_ptr<uint8_t[]> block(new uint8_t[length]);
    for (int opcode = 0; opcode < 256; ++opcode) {
      for (uint8_t second : {0x00, 0x10, 0x30, 0x01}) {
        for (size_t i = 0; i < length; ++i) block[i] = static_cast<uint8_t>(random());
        if (length > 0) block[0] = static_cast<uint8_t>(opcode);
        if (length > 1) block[1] = second;
        const Parsed parsed = parse({block.get(), length});
        const auto expected = kExpected.find(opcode);
        if (length < 16) {
          EXPECT_EQ(parsed.error, ParseError::kTooShort);
        } else if (expected == kExpected.end()) {
          EXPECT_EQ(parsed.error, ParseError::kUnknownOpcode);
        } else if (second & 0xF) {
          EXPECT_EQ(parsed.error, ParseError::kBadVersion);
        } else if (length < 16 + expected->second.extended_bytes) {
          EXPECT_EQ(parsed.error, ParseError::kTooShort);
        }
        if (parsed.error != ParseError::kNone) continue;
        ASSERT_EQ(parsed.payload_offset + parsed.payload_length + parsed.pad + kIcrcBytes, length);
        ASSERT_EQ(parsed.pad, pad_bytes(parsed.payload_length));
        ASSERT_EQ(datagram_bytes(parsed.header.opcode, parsed.payload_length), length);
      }
    }
  }
}

TEST(Build, StaysWithinItsBufferAndAgreesWithDatagramBytes) {
  for (const auto& [value, expected] : kExpected) {
    const auto opcode = static_cast<Opcode>(value);
    for (uint32_t payload : {0u, 1u, 2u, 3u, 4u, 4096u}) {
      if (payload != 0 && !expected.payload) continue;
      const std::unique_ptr<uint8_t[]> out(new uint8_t[12 + expected.extended_bytes]);
      ASSERT_EQ(build(distinct_header(opcode), payload, out.get()), 12 + expected.extended_bytes);
      EXPECT_EQ((out[1] >> 4) & 3, static_cast<int>((4 - payload % 4) % 4));
      const size_t padded = (payload + 3) / 4 * 4;
      EXPECT_EQ(datagram_bytes(opcode, payload), 12 + expected.extended_bytes + padded + 4);
    }
  }
}

TEST(ParseError, NamesAreDistinct) {
  EXPECT_STREQ(parse_error_name(ParseError::kUnknownOpcode), "unknown opcode");
  EXPECT_STRNE(parse_error_name(ParseError::kBadPad), parse_error_name(ParseError::kTooShort));
}

}  // namespace
}  // namespace roce::wire
