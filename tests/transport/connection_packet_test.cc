#include "transport/connection_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "transport/address.h"

namespace roce::transport {
namespace {

ConnectionPacket example() {
  ConnectionPacket packet;
  packet.type = PacketType::kRequest;
  packet.job_cookie = 0x1122334455667788;
  packet.from = {1, 2};
  packet.to = {3, 4};
  packet.incarnation = 5;
  packet.connection_id = 6;
  packet.control_qkey = 7;
  packet.path = {1, 2, 3, 4};
  packet.offer.qpn = 0x800005;
  packet.offer.max_path_mtu_bytes = 0x01020304;
  packet.blob = {9, 8, 7};
  return packet;
}

/// Decodes from an exact-size heap copy, so that a sanitizer sees any read past the end.
Result<ConnectionPacket> decode_exact(const std::vector<uint8_t>& bytes, size_t size) {
  std::unique_ptr<uint8_t[]> copy(new uint8_t[size]);
  std::copy_n(bytes.begin(), size, copy.get());
  return decode_packet({copy.get(), size});
}

TEST(ConnectionPacket, LayoutIsFixedAndLittleEndian) {
  std::vector<uint8_t> bytes = encode_packet(example());
  ASSERT_EQ(bytes.size(), 64U + 48U + 3U);
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 4), "RoCM");
  EXPECT_EQ(bytes[4], 1);  // version
  EXPECT_EQ(bytes[6], 1);  // request
  EXPECT_EQ(bytes[8], 0x88);
  EXPECT_EQ(bytes[16], 1);
  EXPECT_EQ(bytes[28], 4);
  EXPECT_EQ(bytes[32], 5);
  EXPECT_EQ(bytes[40], 6);
  EXPECT_EQ(bytes[48], 7);
  EXPECT_EQ(bytes[52], 48 + 3);
  EXPECT_EQ(bytes[54], 1);
  EXPECT_EQ(bytes[57], 4);
  EXPECT_EQ(bytes[64], 5);  // QPN
  EXPECT_EQ(bytes[111], 1);
  EXPECT_EQ(bytes[112], 9);
}

TEST(ConnectionPacket, DecodeGivesBackWhatWasEncoded) {
  ConnectionPacket in = example();
  std::vector<uint8_t> bytes = encode_packet(in);
  auto out = decode_exact(bytes, bytes.size());
  ASSERT_TRUE(out.is_ok()) << out.status().text();
  EXPECT_EQ(out->from, in.from);
  EXPECT_EQ(out->to, in.to);
  EXPECT_EQ(out->path, in.path);
  EXPECT_EQ(out->blob, in.blob);
  EXPECT_EQ(encode_packet(*out), bytes);
}

TEST(ConnectionPacket, LargestBlobFitsIntoARequest) {
  Address address;
  address.host_name = std::string(64, 'h');
  address.rails.resize(4);
  for (RailAddress& rail : address.rails) {
    rail.control_qpn = 1;
    rail.gids.resize(8);
  }
  ConnectionPacket packet = example();
  packet.blob = encode(address);
  std::vector<uint8_t> bytes = encode_packet(packet);
  EXPECT_LE(bytes.size(), kMaxPacketBytes);
  EXPECT_TRUE(decode_packet(bytes).is_ok());
}

TEST(ConnectionPacket, RefusalsOfAnotherVersionAreRead) {
  ConnectionPacket packet = example();
  packet.type = PacketType::kRefuse;
  packet.version = 99;
  packet.reason = "because\033[2J";
  std::vector<uint8_t> bytes = encode_packet(packet);
  auto out = decode_exact(bytes, bytes.size());
  ASSERT_TRUE(out.is_ok());
  EXPECT_EQ(out->version, 99);
  EXPECT_EQ(out->reason, "because?[2J");
}

TEST(ConnectionPacket, EveryTruncationIsRefused) {
  std::vector<uint8_t> bytes = encode_packet(example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_exact(bytes, size).is_ok()) << size;
  }
}

TEST(ConnectionPacket, AnyBytesAreAnswered) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes = encode_packet(example());
  for (int round = 0; round < 50000; ++round) {
    std::vector<uint8_t> mutant = bytes;
    for (unsigned i = random() % 8; i > 0; --i) {
      mutant[random() % mutant.size()] = static_cast<uint8_t>(random());
    }
    size_t size = random() % 4 == 0 ? random() % mutant.size() : mutant.size();
    auto out = decode_exact(mutant, size);
    ASSERT_TRUE(out.is_ok() || !out.status().text().empty());
  }
}

}  // namespace
}  // namespace roce::transport
