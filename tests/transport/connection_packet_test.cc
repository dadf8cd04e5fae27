#include "transport/connection_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "transport/address.h"
#include "transport/request_address.h"

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

/// With as many rails, GIDs and letters as there may be.
Address largest_address() {
  Address address;
  address.host_name = std::string(64, 'h');
  address.rails.resize(4);
  for (size_t i = 0; i < 4; ++i) {
    address.rails[i].control_qpn = static_cast<uint32_t>(i + 1);
    address.rails[i].gids.resize(8);
    for (size_t j = 0; j < 8; ++j)
      address.rails[i].gids[j].gid[15] = static_cast<uint8_t>(10 * i + j);
  }
  return address;
}

TEST(ConnectionPacket, EveryRequestFitsTheSmallestPathMtu) {
  ConnectionPacket packet = example();
  packet.blob = encode_for_request(largest_address(), {3, 7, 0, 0});
  std::vector<uint8_t> bytes = encode_packet(packet);
  EXPECT_EQ(bytes.size(), 256U);
  EXPECT_TRUE(decode_packet(bytes).is_ok());
}

TEST(ConnectionPacket, RequestsTellRailAndGidAtTheirPlaces) {
  const PathPair path{2, 5, 1, 0};
  std::vector<uint8_t> blob = encode_for_request(largest_address(), path);
  auto address = decode_from_request(blob, path);
  ASSERT_TRUE(address.is_ok()) << address.status().text();
  ASSERT_EQ(address->rails.size(), 3U);
  EXPECT_EQ(address->rails[2].control_qpn, 3U);
  ASSERT_EQ(address->rails[2].gids.size(), 6U);
  EXPECT_EQ(address->rails[2].gids[5].gid[15], 25);
  EXPECT_TRUE(address->rails[0].gids.empty());
  EXPECT_TRUE(same_end(largest_address(), *address, path.reversed()));
  EXPECT_FALSE(same_end(largest_address(), *address, PathPair{0, 0, 2, 6}));
  EXPECT_FALSE(same_end(largest_address(), *address, PathPair{0, 0, 1, 5}));
  Address moved = largest_address();
  moved.rails[2].control_qpn = 99;
  EXPECT_FALSE(same_end(moved, *address, path.reversed()));

  EXPECT_FALSE(decode_from_request(blob, {4, 0, 0, 0}).is_ok());
  EXPECT_FALSE(decode_from_request(blob, {0, 8, 0, 0}).is_ok());
  EXPECT_FALSE(decode_from_request(encode(largest_address()), path).is_ok());
}

TEST(ConnectionPacket, ReasonsAreCutToThePathMtu) {
  ConnectionPacket packet = example();
  packet.type = PacketType::kRefuse;
  packet.reason = std::string(2000, 'x');
  EXPECT_EQ(encode_packet(packet, 256).size(), 256U);
  EXPECT_EQ(encode_packet(packet).size(), 64U + 600U);
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
