#include "transport/address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

#include "transport/kept_address.h"

namespace roce::transport {
namespace {

Address example() {
  Address address;
  address.job_cookie = 0x0102030405060708;
  for (int i = 0; i < 16; ++i) address.boot_id[i] = static_cast<uint8_t>(0xA0 + i);
  address.netns_inode = 4026531840;
  address.host_name = "node17";
  address.pid = 4711;
  for (int r = 0; r < 2; ++r) {
    RailAddress rail;
    rail.mtu_bytes = 4096 << r;
    rail.traffic_class = 106;
    rail.control_qpn = 0x800001 + r;
    rail.control_qkey = 0x11111111;
    rail.udp_port = static_cast<uint16_t>(4791 + r);
    rail.device_kind = 1;
    rail.capabilities = 1;
    rail.receive_budget_bytes = 106496;
    rail.speed_mbps = 100000;
    for (int g = 0; g <= r; ++g) {
      GidAddress gid;
      gid.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, static_cast<uint8_t>(g)};
      gid.prefix_length = 120;
      gid.loopback = g == 1;
      rail.gids.push_back(gid);
    }
    address.rails.push_back(rail);
  }
  return address;
}

/// Decodes from an exact-size heap copy, so that a sanitizer sees any read past the end.
Result<Address> decode_exact(const std::vector<uint8_t>& blob, size_t size) {
  std::unique_ptr<uint8_t[]> copy(new uint8_t[size]);
  std::copy_n(blob.begin(), size, copy.get());
  return decode({copy.get(), size});
}

std::string refusal(const std::vector<uint8_t>& blob) {
  Result<Address> result = decode_exact(blob, blob.size());
  EXPECT_FALSE(result.is_ok());
  if (result.is_ok()) return "";
  EXPECT_EQ(result.status().code(), Code::kProtocol);
  return result.status().text();
}

// Offsets by hand from the layout described in address.cc.
constexpr size_t kVersionAt = 4;
constexpr size_t kLengthAt = 6;
constexpr size_t kHostLengthAt = 8 + 8 + 16 + 8 + 4;
constexpr size_t kRailsAt = kHostLengthAt + 1 + 6;
constexpr size_t kFirstRailAt = kRailsAt + 1;
constexpr size_t kKindAt = kFirstRailAt + 4 + 1 + 4 + 4 + 2;
constexpr size_t kGidCountAt = kKindAt + 1 + 4 + 4 + 4;
constexpr size_t kFirstGidAt = kGidCountAt + 1;
constexpr size_t kGidBytes = 19;
constexpr size_t kRailBytes = kFirstGidAt - kFirstRailAt;

TEST(Address, LayoutIsFixedAndLittleEndian) {
  const std::vector<uint8_t> blob = encode(example());
  ASSERT_EQ(blob.size(), kFirstRailAt + 2 * kRailBytes + 3 * kGidBytes);
  EXPECT_EQ(std::string(blob.begin(), blob.begin() + 4), "ROCE");
  EXPECT_EQ(blob[kVersionAt] | blob[kVersionAt + 1] << 8, 1);
  EXPECT_EQ(blob[kLengthAt] | blob[kLengthAt + 1] << 8, static_cast<int>(blob.size()));
  EXPECT_EQ(blob[8], 8);
  EXPECT_EQ(blob[15], 1);
  EXPECT_EQ(blob[kHostLengthAt], 6);
  EXPECT_EQ(blob[kRailsAt], 2);
  EXPECT_EQ(blob[kFirstRailAt + 1], 0x10);  // 4096
  EXPECT_EQ(blob[kKindAt], 1);
  EXPECT_EQ(blob[kGidCountAt], 1);
  EXPECT_EQ(blob[kFirstGidAt + 12], 10);
}

TEST(Address, DecodeGivesBackWhatWasEncoded) {
  const Address in = example();
  const std::vector<uint8_t> blob = encode(in);
  Result<Address> out = decode_exact(blob, blob.size());
  ASSERT_TRUE(out.is_ok()) << out.status().text();
  EXPECT_EQ(out->job_cookie, in.job_cookie);
  EXPECT_EQ(out->boot_id, in.boot_id);
  EXPECT_EQ(out->netns_inode, in.netns_inode);
  EXPECT_EQ(out->host_name, in.host_name);
  EXPECT_EQ(out->pid, in.pid);
  ASSERT_EQ(out->rails.size(), 2U);
  EXPECT_EQ(out->rails[1].mtu_bytes, 8192U);
  EXPECT_EQ(out->rails[1].udp_port, 4792);
  EXPECT_EQ(out->rails[1].control_qpn, 0x800002U);
  EXPECT_EQ(out->rails[1].control_qkey, 0x11111111U);
  EXPECT_EQ(out->rails[1].receive_budget_bytes, 106496U);
  EXPECT_EQ(out->rails[1].speed_mbps, 100000U);
  ASSERT_EQ(out->rails[1].gids.size(), 2U);
  EXPECT_FALSE(out->rails[1].gids[0].loopback);
  EXPECT_TRUE(out->rails[1].gids[1].loopback);
  EXPECT_EQ(out->rails[1].gids[1].prefix_length, 120);
  EXPECT_EQ(encode(*out), blob);
}

TEST(Address, LargestBlobFits) {
  Address address = example();
  address.host_name = std::string(300, 'h');
  address.rails.resize(9, address.rails[0]);
  for (RailAddress& rail : address.rails) rail.gids.resize(20, GidAddress{});
  const std::vector<uint8_t> blob = encode(address);
  Result<Address> out = decode_exact(blob, blob.size());
  ASSERT_TRUE(out.is_ok()) << out.status().text();
  EXPECT_EQ(out->host_name.size(), 64U);
  EXPECT_EQ(out->rails.size(), 4U);
  EXPECT_EQ(out->rails[3].gids.size(), 8U);
}

TEST(Address, OtherVersionIsRefusedWithBothValues) {
  std::vector<uint8_t> blob = encode(example());
  blob[kVersionAt] = 7;
  const std::string text = refusal(blob);
  EXPECT_NE(text.find("version 7"), std::string::npos) << text;
  EXPECT_NE(text.find("has 1"), std::string::npos) << text;
}

TEST(Address, ForeignBytesAreRefused) {
  EXPECT_NE(refusal({}).find("ends after 0 bytes"), std::string::npos);
  std::vector<uint8_t> blob = encode(example());
  blob[0] ^= 1;
  EXPECT_NE(refusal(blob).find("mark"), std::string::npos);
}

TEST(Address, LengthMustAgree) {
  std::vector<uint8_t> blob = encode(example());
  const std::string bytes = std::to_string(blob.size());
  blob.push_back(0);
  const std::string text = refusal(blob);
  EXPECT_NE(text.find(bytes), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(blob.size())), std::string::npos) << text;
}

TEST(Address, BytesAfterTheLastFieldAreRefused) {
  std::vector<uint8_t> blob = encode(example());
  blob.push_back(0);
  ++blob[kLengthAt];
  EXPECT_NE(refusal(blob).find("its fields take"), std::string::npos);
}

TEST(Address, FieldsOutOfRangeAreRefusedWithValueAndRange) {
  struct Case {
    size_t at;
    uint8_t value;
    const char* text;
  };
  const Case cases[] = {
      {kRailsAt, 0, "number of rails is 0, allowed are 1..4"},
      {kRailsAt, 5, "number of rails is 5, allowed are 1..4"},
      {kGidCountAt, 0, "number of GIDs is 0, allowed are 1..8"},
      {kGidCountAt, 255, "number of GIDs is 255, allowed are 1..8"},
      {kHostLengthAt, 65, "length of the host name is 65, allowed are 0..64"},
      {kFirstRailAt + 1, 0, "MTU is 0, allowed are 256..65536"},
      {kFirstRailAt + 3, 1, "allowed are 256..65536"},
      {kFirstRailAt + 8, 1, "control QPN"},
      {kKindAt, 2, "device kind is 2, allowed are 0..1"},
      {kFirstGidAt + 16, 3, "RoCE version) is 3, allowed are 1..2"},
      {kFirstGidAt + 16, 0, "RoCE version) is 0, allowed are 1..2"},
      {kFirstGidAt + 17, 129, "prefix length is 129, allowed are 0..128"},
      {kFirstGidAt + 18, 2, "flags is 2, allowed are 0..1"},
  };
  for (const Case& c : cases) {
    std::vector<uint8_t> blob = encode(example());
    blob[c.at] = c.value;
    const std::string text = refusal(blob);
    EXPECT_NE(text.find(c.text), std::string::npos) << text << " instead of " << c.text;
  }
}

TEST(Address, HostNameCannotWriteToATerminal) {
  Address address = example();
  address.host_name = "a\033[2Jb\nc\xff";
  const std::vector<uint8_t> blob = encode(address);
  Result<Address> out = decode_exact(blob, blob.size());
  ASSERT_TRUE(out.is_ok());
  EXPECT_EQ(out->host_name, "a?[2Jb?c?");
}

TEST(Address, EveryTruncationIsRefused) {
  const std::vector<uint8_t> blob = encode(example());
  for (size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(decode_exact(blob, size).is_ok()) << size;
    // The same with a length field that agrees, so that the fields themselves are cut.
    if (size <= kLengthAt + 1) continue;
    std::vector<uint8_t> cut(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size));
    cut[kLengthAt] = static_cast<uint8_t>(size);
    cut[kLengthAt + 1] = static_cast<uint8_t>(size >> 8);
    EXPECT_NE(refusal(cut).find("ends after"), std::string::npos) << size;
  }
}

TEST(Address, AnyBytesAreAnswered) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<uint8_t> blob = encode(example());
  for (int round = 0; round < 50000; ++round) {
    std::vector<uint8_t> mutant = blob;
    const int changes = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < changes; ++i) {
      mutant[random() % mutant.size()] = static_cast<uint8_t>(random());
    }
    Result<Address> out = decode_exact(mutant, mutant.size());
    if (!out.is_ok()) {
      ASSERT_FALSE(out.status().text().empty());
      continue;
    }
    ASSERT_LE(out->rails.size(), 4U);
    ASSERT_EQ(encode(*out).size(), mutant.size());
  }
}

TEST(Address, LocalIdentityIsThisProcess) {
  const Address me = local_identity();
  EXPECT_EQ(me.pid, static_cast<uint32_t>(getpid()));
  EXPECT_FALSE(me.host_name.empty());
  EXPECT_NE(me.netns_inode, 0U);
  EXPECT_TRUE(same_network_host(me, local_identity()));
}

TEST(Address, KeptInLessMemoryStillTellsHostAndRails) {
  Address own = example();
  own.host_name = "node1";
  Address in = example();
  const KeptAddress near(in, own);
  // The blob without magic, version, length, cookie, boot id and inode, with one byte for these,
  // and without the 12 first bytes of 3 IPv4-mapped GIDs.
  EXPECT_EQ(near.bytes(), encode(in).size() - 40 + 1 - 3 * 12);
  EXPECT_EQ(encode(near.get(own)), encode(in));
  EXPECT_TRUE(same_network_host(own, near.get(own)));
  in.rails[0].gids[0].gid = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xFF, 0xFE, 0, 0, 1};
  in.rails[1].gids[0].gid = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(encode(KeptAddress(in, own).get(own)), encode(in));
  in.rails[0].gids.clear();  // as known from a request
  EXPECT_TRUE(KeptAddress(in, own).get(own).rails[0].gids.empty());
  ++in.netns_inode;
  const Address far = KeptAddress(in, own).get(own);
  EXPECT_FALSE(same_network_host(own, far));
  EXPECT_EQ(far.host_name, "node17");
  EXPECT_EQ(far.job_cookie, own.job_cookie);
  EXPECT_EQ(far.rails.size(), 2U);
}

TEST(Address, LoopbackNeedsSameBootAndSameNetworkNamespace) {
  const Address a = example();
  Address b = a;
  EXPECT_TRUE(same_network_host(a, b));
  b.boot_id[3] ^= 1;
  EXPECT_FALSE(same_network_host(a, b));
  b = a;
  ++b.netns_inode;
  EXPECT_FALSE(same_network_host(a, b));
  Address unknown;
  EXPECT_FALSE(same_network_host(unknown, unknown));
}

}  // namespace
}  // namespace roce::transport
