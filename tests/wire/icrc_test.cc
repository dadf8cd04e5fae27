#include "wire/icrc.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "vectors.h"
#include "wire/packet.h"

namespace roce::wire {
namespace {

constexpr uint32_t kSeed = 20240611;

uint32_t whole_datagram(const std::vector<uint8_t>& packet) {
  return icrc_of_datagram(flow_of(packet), datagram_of(packet), ip_id_of(packet));
}

// Bytes of an IP packet that Flow, identification and datagram determine.
bool represented(const std::vector<uint8_t>& packet, size_t byte) {
  const size_t ip = ip_header_bytes(packet);
  if (byte >= ip) return byte < ip + 4 || byte >= ip + 8;
  return ip == 40 ? byte >= 8 : byte >= 12 || byte == 4 || byte == 5;
}

bool masked(const std::vector<uint8_t>& packet, size_t byte, int bit) {
  const size_t ip = ip_header_bytes(packet);
  if (byte == ip + 6 || byte == ip + 7 || byte == ip + 12) return true;
  if (ip == 40) return (byte >= 1 && byte <= 3) || byte == 7 || (byte == 0 && bit < 4);
  return byte == 1 || byte == 8 || byte == 10 || byte == 11;
}

std::vector<uint8_t> random_packet(std::mt19937& random, bool ipv6, size_t datagram_bytes) {
  std::vector<uint8_t> packet((ipv6 ? 40 : 20) + 8 + datagram_bytes);
  for (uint8_t& byte : packet) byte = static_cast<uint8_t>(random());
  const size_t udp_bytes = datagram_bytes + 8;
  const size_t ip = ipv6 ? 40 : 20;
  const size_t length = ipv6 ? udp_bytes : udp_bytes + 20;
  packet[0] = ipv6 ? 0x60 : 0x45;
  packet[ipv6 ? 4 : 2] = static_cast<uint8_t>(length >> 8);
  packet[ipv6 ? 5 : 3] = static_cast<uint8_t>(length);
  packet[ipv6 ? 6 : 9] = 17;
  if (!ipv6) packet[6] = 0x40, packet[7] = 0;
  packet[ip + 4] = static_cast<uint8_t>(udp_bytes >> 8);
  packet[ip + 5] = static_cast<uint8_t>(udp_bytes);
  return packet;
}

class IcrcVector : public testing::TestWithParam<Vector> {
 protected:
  std::vector<uint8_t> packet_ = from_hex(GetParam().hex);
};

TEST_P(IcrcVector, HasTheIcrcOfTheCapture) {
  EXPECT_EQ(whole_datagram(packet_), GetParam().crc);
  EXPECT_EQ(icrc_load(&packet_[packet_.size() - 4]), GetParam().crc);
  EXPECT_EQ(reference_icrc(packet_), GetParam().crc);
  uint8_t field[4];
  icrc_store(whole_datagram(packet_), field);
  EXPECT_EQ(0, std::memcmp(field, &packet_[packet_.size() - 4], 4));
}

TEST_P(IcrcVector, ChangesWithEveryBitThatRoutersDoNotChange) {
  for (size_t byte = 0; byte + 4 < packet_.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      // Not a packet of the same family any more.
      if (byte == 0 && bit >= 4) continue;
      std::vector<uint8_t> flipped = packet_;
      flipped[byte] ^= static_cast<uint8_t>(1 << bit);
      const bool same = masked(packet_, byte, bit);
      EXPECT_EQ(reference_icrc(flipped) == GetParam().crc, same) << byte << "." << bit;
      if (represented(packet_, byte)) {
        EXPECT_EQ(whole_datagram(flipped) == GetParam().crc, same) << byte << "." << bit;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, IcrcVector, testing::ValuesIn(kVectors),
                         [](const auto& info) { return info.param.name; });

TEST(Icrc, BitwiseReferenceIsCrc32) {
  const std::string digits = "123456789";  // The check value of CRC-32.
  std::vector<uint8_t> bytes(digits.begin(), digits.end());
  EXPECT_EQ(reference_crc32(bytes), 0xCBF43926u);
}

TEST(Icrc, EqualsReferenceForRandomPacketsOfManyLengths) {
  std::mt19937 random(kSeed);
  for (size_t bytes = 16; bytes < 9000; bytes += 1 + random() % 61) {
    for (bool ipv6 : {false, true}) {
      const std::vector<uint8_t> packet = random_packet(random, ipv6, bytes);
      ASSERT_EQ(whole_datagram(packet), reference_icrc(packet)) << bytes << " seed " << kSeed;
    }
  }
}

TEST(Icrc, PiecesGiveTheSameAsTheWhole) {
  std::mt19937 random(kSeed);
  for (size_t header_bytes : {12, 16, 28, 40, 44}) {
    for (size_t payload : {0, 1, 3, 4, 64, 1000, 4095, 4096, 4097, 8192, 20000}) {
      const std::vector<uint8_t> packet =
          random_packet(random, random() & 1, header_bytes + payload + 4);
      const auto datagram = datagram_of(packet);
      const uint32_t expected = reference_icrc(packet);
      const auto headers = datagram.first(header_bytes);
      const uint8_t* data = datagram.data() + header_bytes;
      const Crc begun =
          icrc_bth(icrc_begin(flow_of(packet), datagram.size(), ip_id_of(packet)), headers);
      EXPECT_EQ(begun, icrc_begin_bth(flow_of(packet), datagram.size(), ip_id_of(packet), headers));
      EXPECT_EQ(icrc_update(begun, data, payload), expected) << header_bytes << "+" << payload;

      std::vector<uint8_t> copy(payload + 2, 0xA5);
      EXPECT_EQ(icrc_copy(begun, copy.data() + 1, data, payload), expected);
      EXPECT_TRUE(std::equal(data, data + payload, copy.begin() + 1));
      EXPECT_EQ(copy.front(), 0xA5);
      EXPECT_EQ(copy.back(), 0xA5);

      const size_t cut = payload == 0 ? 0 : random() % payload;
      EXPECT_EQ(icrc_update(icrc_update(begun, data, cut), data + cut, payload - cut), expected);
    }
  }
}

TEST(Icrc, FlowIsIpv4OnlyIfMapped) {
  Flow flow;
  EXPECT_FALSE(flow.is_ipv4());
  flow.src[10] = flow.src[11] = 0xFF;
  EXPECT_TRUE(flow.is_ipv4());
  flow.src[0] = 0xFE;
  EXPECT_FALSE(flow.is_ipv4());
}

// ---- identification ----

TEST(IcrcId, DeltaHasTheValuesOfZlib) {
  // Python: zlib.crc32 of whole packets with identification 0 and with this one.
  EXPECT_EQ(icrc_id_delta(1, 16), 0xcf9e17c8u);
  EXPECT_EQ(icrc_id_delta(127, 1044), 0x422c44cfu);
  EXPECT_EQ(icrc_id_delta(0x1234, 4120), 0xaf273a4au);
  EXPECT_EQ(icrc_id_delta(0xFFFF, 65000), 0x18c98be5u);
}

TEST(IcrcId, DeltaIsTheDifferenceOfFullComputations) {
  std::mt19937 random(kSeed);
  for (size_t bytes = 16; bytes < 9000; bytes += 4 + random() % 97) {
    std::vector<uint8_t> packet = random_packet(random, false, bytes);
    const Flow flow = flow_of(packet);
    const uint32_t zero = icrc_of_datagram(flow, datagram_of(packet), 0);
    for (int i = 0; i < 40; ++i) {
      const auto id = static_cast<uint16_t>(i < 8 ? 1 << i : random());
      const uint32_t difference = zero ^ icrc_of_datagram(flow, datagram_of(packet), id);
      ASSERT_EQ(icrc_id_delta(id, bytes), difference) << id << " " << bytes << " seed " << kSeed;
      ASSERT_EQ(icrc_id_of(difference, bytes), id);
    }
  }
}

TEST(IcrcId, MatchesEveryIdentificationBelowTheLimit) {
  for (size_t bytes : {16, 32, 1044, 4120, 65507}) {
    std::set<uint32_t> deltas;
    for (uint32_t id = 0; id < 65536; ++id) {
      const uint32_t delta = icrc_id_delta(static_cast<uint16_t>(id), bytes);
      deltas.insert(delta);
      ASSERT_TRUE(icrc_id_matches(delta, bytes, 65536)) << id;
      ASSERT_TRUE(icrc_id_matches(delta, bytes, id + 1)) << id;
      ASSERT_FALSE(icrc_id_matches(delta, bytes, id)) << id;
    }
    EXPECT_EQ(deltas.size(), 65536u);
  }
}

TEST(IcrcId, RandomDifferencesMatchAtTheRateOfSixteenBits) {
  std::mt19937 random(kSeed);
  constexpr int kTrials = 1 << 22;
  int matches = 0;
  for (int i = 0; i < kTrials; ++i) matches += icrc_id_matches(random(), 1044, 65536);
  // 64 expected, standard deviation 8.
  EXPECT_GT(matches, 64 - 40) << "seed " << kSeed;
  EXPECT_LT(matches, 64 + 40) << "seed " << kSeed;
}

TEST(IcrcId, OneBitErrorsNeverMatch) {
  for (size_t bytes : {16, 32, 280, 1044, 4120}) {
    // The effect of each bit of the datagram: a CRC over that bit and the zeros after it.
    std::vector<uint8_t> zeros(bytes - 4);
    const uint32_t base = reference_crc32(zeros);
    for (size_t bit = 0; bit < zeros.size() * 8; bit += 1 + bit % 7) {
      zeros[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      EXPECT_FALSE(icrc_id_matches(base ^ reference_crc32(zeros), bytes, 65536)) << bit;
      zeros[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
  }
}

TEST(IcrcId, LengthsThatShareACacheEntryDoNotDisturbEachOther) {
  const uint32_t a = icrc_id_delta(77, 20), b = icrc_id_delta(77, 20 + 1024);
  EXPECT_NE(a, b);
  EXPECT_EQ(icrc_id_delta(77, 20), a);
  EXPECT_EQ(icrc_id_delta(77, 20 + 1024), b);
  EXPECT_EQ(icrc_id_of(a, 20), 77);
  EXPECT_EQ(icrc_id_of(a, 21), -1);
}

}  // namespace
}  // namespace roce::wire
