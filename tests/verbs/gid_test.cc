#include "verbs/gid.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace roce::verbs {
namespace {

GidBytes address(const std::string& text) {
  GidBytes bytes{};
  if (text.find(':') == std::string::npos) {
    bytes[10] = bytes[11] = 0xFF;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &bytes[12]), 1) << text;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), bytes.data()), 1) << text;
  }
  return bytes;
}

// "10.0.0.1/24": the prefix counts bits of the family, as people write it.
Gid gid(const std::string& text, GidType type = GidType::kRoceV2) {
  Gid out;
  const size_t slash = text.find('/');
  out.bytes = address(text.substr(0, slash));
  if (slash != std::string::npos) {
    const int bits = std::stoi(text.substr(slash + 1));
    out.prefix_length =
        static_cast<uint8_t>(text.find(':') == std::string::npos ? 96 + bits : bits);
  }
  out.type = type;
  return out;
}

std::vector<Gid> gids(const std::vector<std::string>& texts) {
  std::vector<Gid> out;
  for (const std::string& text : texts) out.push_back(gid(text));
  return out;
}

TEST(Gid, KindsAreThoseOfTheAddressRanges) {
  EXPECT_EQ(gid_kind(address("10.0.0.1")), GidKind::kIpv4);
  EXPECT_EQ(gid_kind(address("223.255.255.254")), GidKind::kIpv4);
  EXPECT_EQ(gid_kind(address("169.254.7.7")), GidKind::kLinkLocal);
  EXPECT_EQ(gid_kind(address("169.253.7.7")), GidKind::kIpv4);
  EXPECT_EQ(gid_kind(address("127.0.0.1")), GidKind::kLoopback);
  EXPECT_EQ(gid_kind(address("127.9.9.9")), GidKind::kLoopback);
  EXPECT_EQ(gid_kind(address("0.0.0.0")), GidKind::kUnusable);
  EXPECT_EQ(gid_kind(address("224.0.0.1")), GidKind::kUnusable);
  EXPECT_EQ(gid_kind(address("255.255.255.255")), GidKind::kUnusable);
  EXPECT_EQ(gid_kind(address("2001:db8::1")), GidKind::kGlobalIpv6);
  EXPECT_EQ(gid_kind(address("fd00::1")), GidKind::kGlobalIpv6);
  EXPECT_EQ(gid_kind(address("fe80::1")), GidKind::kLinkLocal);
  EXPECT_EQ(gid_kind(address("febf::1")), GidKind::kLinkLocal);
  EXPECT_EQ(gid_kind(address("fec0::1")), GidKind::kGlobalIpv6);
  EXPECT_EQ(gid_kind(address("::1")), GidKind::kLoopback);
  EXPECT_EQ(gid_kind(address("::2")), GidKind::kGlobalIpv6);
  EXPECT_EQ(gid_kind(address("::")), GidKind::kUnusable);
  EXPECT_EQ(gid_kind(address("ff02::1")), GidKind::kUnusable);
}

TEST(Gid, TextIsTheAddressAsPeopleWriteIt) {
  EXPECT_EQ(gid_text(address("10.1.2.3")), "10.1.2.3");
  EXPECT_EQ(gid_text(address("fe80::1")), "fe80::1");
  Gid named = gid("10.1.2.3", GidType::kRoceV1);
  named.index = 5;
  EXPECT_EQ(gid_text(named), "10.1.2.3 (index 5, RoCE v1)");
}

TEST(Gid, SubnetsCompareExactlyThePrefix) {
  EXPECT_TRUE(same_subnet(address("10.0.0.1"), address("10.0.0.200"), 96 + 24));
  EXPECT_FALSE(same_subnet(address("10.0.0.1"), address("10.0.1.1"), 96 + 24));
  EXPECT_TRUE(same_subnet(address("10.0.0.1"), address("10.0.1.1"), 96 + 23));
  EXPECT_FALSE(same_subnet(address("10.0.0.1"), address("10.0.2.1"), 96 + 23));
  EXPECT_TRUE(same_subnet(address("10.0.0.1"), address("10.0.0.1"), 128));
  EXPECT_FALSE(same_subnet(address("10.0.0.1"), address("10.0.0.2"), 128));
  EXPECT_TRUE(same_subnet(address("10.0.0.2"), address("10.0.0.3"), 127));
  EXPECT_TRUE(same_subnet(address("2001:db8::1"), address("fe80::1"), 0));
  EXPECT_TRUE(same_subnet(address("10.0.0.1"), address("10.0.0.1"), 255));
}

TEST(RankGids, PutsRoceV2Ipv4FirstAndLoopbackLast) {
  std::vector<Gid> list = {
      gid("fe80::5"),  gid("10.0.0.1", GidType::kRoceV1), gid("127.0.0.1"), gid("2001:db8::5"),
      gid("10.0.0.2"), gid("fe80::5", GidType::kRoceV1),  gid("10.0.0.1")};
  rank_gids(list);
  std::vector<std::string> order;
  for (const Gid& each : list) {
    order.push_back(gid_text(each.bytes) + (each.type == GidType::kRoceV2 ? "" : " v1"));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"10.0.0.2", "10.0.0.1", "2001:db8::5", "fe80::5",
                                             "127.0.0.1", "10.0.0.1 v1", "fe80::5 v1"}));
}

struct Case {
  const char* name;
  std::vector<std::string> local, peer;
  bool same_host;
  int expected_local, expected_peer;  // -1: unreachable.
};

const Case kCases[] = {
    {"OneSubnet", {"10.0.0.1/24"}, {"10.0.0.2/24"}, false, 0, 0},
    {"SharedSubnetBeforeEarlierGid",
     {"192.168.1.1/24", "10.0.0.1/24"},
     {"10.0.0.2/24"},
     false,
     1,
     0},
    {"SharedSubnetOfPeersSecond", {"10.0.0.1/24"}, {"192.168.1.2/24", "10.0.0.2/24"}, false, 0, 1},
    {"SharedIpv6SubnetBeforeRoutedIpv4",
     {"10.0.0.1/24", "2001:db8::1/64"},
     {"10.9.0.2/24", "2001:db8::2/64"},
     false,
     1,
     1},
    {"Ipv4BeforeIpv6OnSharedSubnets",
     {"2001:db8::1/64", "10.0.0.1/24"},
     {"2001:db8::2/64", "10.0.0.2/24"},
     false,
     1,
     1},
    {"RoutedBeforeLinkLocal",
     {"fe80::1/64", "10.0.0.1/24"},
     {"fe80::2/64", "10.9.0.2/24"},
     false,
     1,
     1},
    {"LinkLocalIfNothingElse", {"10.0.0.1/24", "fe80::1/64"}, {"fe80::2/64"}, false, 1, 0},
    {"LinkLocalNotToGlobal", {"fe80::1/64"}, {"2001:db8::2/64"}, false, -1, -1},
    {"LinkLocalFamiliesDoNotMix", {"169.254.0.1/16"}, {"fe80::2/64"}, false, -1, -1},
    {"FamiliesDoNotMix", {"10.0.0.1/24"}, {"2001:db8::2/64"}, false, -1, -1},
    {"LoopbackOnOtherHost", {"127.0.0.1/8"}, {"127.0.0.1/8"}, false, -1, -1},
    {"LoopbackOnThisHost", {"127.0.0.1/8"}, {"127.0.0.1/8"}, true, 0, 0},
    {"LoopbackFamiliesDoNotMix", {"127.0.0.1/8"}, {"::1/128"}, true, -1, -1},
    {"LoopbackNotToOthers", {"127.0.0.1/8"}, {"10.0.0.2/24"}, true, -1, -1},
    {"LoopbackLastOnThisHost",
     {"127.0.0.1/8", "10.0.0.1/24"},
     {"127.0.0.1/8", "10.0.0.1/24"},
     true,
     1,
     1},
    {"ShorterPrefixCounts", {"172.16.5.1/24", "10.0.0.1/24"}, {"10.0.1.9/16"}, false, 1, 0},
    {"UnspecifiedNeverUsed", {"0.0.0.0/0"}, {"0.0.0.0/0"}, true, -1, -1},
    {"EmptyLists", {}, {"10.0.0.2/24"}, false, -1, -1},
};

class SelectGids : public testing::TestWithParam<Case> {};

TEST_P(SelectGids, PicksTheExpectedPairFromBothSides) {
  const std::vector<Gid> local = gids(GetParam().local), peer = gids(GetParam().peer);
  const Result<GidPair> here = select_gids(local, peer, GetParam().same_host);
  const Result<GidPair> there = select_gids(peer, local, GetParam().same_host);
  ASSERT_EQ(here.is_ok(), GetParam().expected_local >= 0) << here.status().text();
  ASSERT_EQ(there.is_ok(), here.is_ok());
  if (!here.is_ok()) {
    EXPECT_EQ(here.status().code(), Code::kUnreachable);
    for (const Gid& each : local) {
      EXPECT_NE(here.status().text().find(gid_text(each.bytes)), std::string::npos);
    }
    return;
  }
  EXPECT_EQ(here.value().local, static_cast<size_t>(GetParam().expected_local));
  EXPECT_EQ(here.value().peer, static_cast<size_t>(GetParam().expected_peer));
  EXPECT_EQ(there.value().local, here.value().peer);
  EXPECT_EQ(there.value().peer, here.value().local);
}

INSTANTIATE_TEST_SUITE_P(Rules, SelectGids, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(SelectGidsRandomly, BothSidesAgreeForAnyTwoLists) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const auto list = [&random](int host) {
    std::vector<Gid> out;
    for (int i = 0, n = 1 + static_cast<int>(random() % 5); i < n; ++i) {
      const std::string net = std::to_string(random() % 3);
      const std::string end = std::to_string(host * 10 + i + 1);
      switch (random() % 3) {
        case 0:
          out.push_back(gid("10.0." + net + "." + end + "/" + std::to_string(22 + random() % 3)));
          break;
        case 1:
          out.push_back(gid("2001:db8:" + net + "::" + end + "/64"));
          break;
        default:
          out.push_back(gid("fe80::" + end + "/64"));
      }
    }
    return out;
  };
  for (int trial = 0; trial < 5000; ++trial) {
    const std::vector<Gid> a = list(1), b = list(2);
    const Result<GidPair> here = select_gids(a, b, false), there = select_gids(b, a, false);
    ASSERT_EQ(here.is_ok(), there.is_ok()) << "seed " << kSeed << " trial " << trial;
    if (!here.is_ok()) continue;
    ASSERT_EQ(here.value().local, there.value().peer) << "seed " << kSeed << " trial " << trial;
    ASSERT_EQ(here.value().peer, there.value().local) << "seed " << kSeed << " trial " << trial;
    ASSERT_EQ(here.value().same_subnet, there.value().same_subnet);
  }
}

TEST(SelectGid, NeverTakesRoceV1) {
  const std::vector<Gid> local = {gid("10.0.0.1/24", GidType::kRoceV1)};
  const std::vector<Gid> peer = {gid("10.0.0.2/24")};
  EXPECT_FALSE(select_gids(local, peer, false).is_ok());
  EXPECT_FALSE(select_gids(peer, local, false).is_ok());
  const std::string text = select_gids(local, peer, false).status().text();
  EXPECT_NE(text.find("10.0.0.1 (RoCE v1)"), std::string::npos) << text;
}

TEST(SelectLocalGid, UsesTheLocalPrefix) {
  const std::vector<Gid> local = gids({"192.168.1.1/24", "10.0.0.1/24", "fe80::1/64"});
  EXPECT_EQ(select_local_gid(local, address("10.0.0.77"), false).value(), 1u);
  EXPECT_EQ(select_local_gid(local, address("172.16.0.1"), false).value(), 0u);
  EXPECT_EQ(select_local_gid(local, address("fe80::9"), false).value(), 2u);
  EXPECT_EQ(select_local_gid(local, address("2001:db8::9"), false).status().code(),
            Code::kUnreachable);
}

}  // namespace
}  // namespace roce::verbs
