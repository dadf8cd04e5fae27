// The table of peers, and what a peer costs that is never used.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <stdexcept>

#include "support.h"
#include "transport/address.h"
#include "transport/counters.h"

namespace roce::transport {
namespace {

using test::Node;

size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Of a host with two interfaces of an IPv4 and an IPv6 address each, whatever this one has.
std::vector<uint8_t> blob_of(Node& node) {
  auto address = decode(node.transport().address());
  if (!address) throw std::runtime_error(address.status().text());
  address->host_name = "node0017";
  address->rails.resize(std::min<size_t>(address->rails.size(), 2));
  for (RailAddress& rail : address->rails) {
    rail.gids.resize(std::min<size_t>(rail.gids.size(), 2));
  }
  return encode(*address);
}

TEST(Peers, OneThatIsNotUsedTakesAtMost256Bytes) {
  constexpr uint32_t kPeers = 8192;
  Node a({.rank = 0}), b({.rank = 1});
  const std::vector<uint8_t> blob = blob_of(b);
  const size_t before = heap_bytes();
  for (uint32_t rank = 1; rank <= kPeers; ++rank) a.add(rank, blob);
  const size_t each = (heap_bytes() - before) / kPeers;
  std::printf(
      "%zu bytes of heap for a peer, blob of %zu bytes, counted %llu\n", each, blob.size(),
      static_cast<unsigned long long>(a.transport().counters().get(Counter::peer_bytes_idle)));
  // A sanitizer's allocator does not count: 0.
  EXPECT_LE(each, 256U);
  EXPECT_LE(a.transport().counters().get(Counter::peer_bytes_idle), 256U);
  EXPECT_GE(a.transport().counters().get(Counter::peer_bytes_idle), blob.size() / 2);
}

TEST(Peers, OnAnotherKindOfDeviceAreReachableOnlyIfMixed) {
  Params mixed = test::soft_params();
  mixed.mixed = 1;
  Node a({.rank = 0}), b({.rank = 1}), c({.rank = 2, .params = mixed});
  auto address = decode(b.transport().address());
  ASSERT_TRUE(address.is_ok());
  for (RailAddress& rail : address->rails) rail.device_kind = 0;  // an RDMA device
  const std::vector<uint8_t> blob = encode(*address);
  const auto refused = a.transport().add_peer({1, 1}, blob, nullptr);
  ASSERT_FALSE(refused.is_ok());
  EXPECT_EQ(refused.status().code(), Code::kUnreachable);
  for (const char* part : {"is the software device", "the peer uses an RDMA device", "mixed = 1"}) {
    EXPECT_NE(refused.status().text().find(part), std::string::npos) << refused.status().text();
  }
  EXPECT_TRUE(c.transport().add_peer({1, 1}, blob, nullptr).is_ok());
}

TEST(Peers, AreKnownByNameUntilTheyAreRemoved) {
  Node a({.rank = 0}), b({.rank = 1});
  const std::vector<uint8_t> blob = b.transport().address();
  EXPECT_EQ(a.transport().find_peer({1, 2}), nullptr);
  Endpoint* second = a.add(2, blob);
  Endpoint* third = a.add(3, blob);
  EXPECT_NE(second, third);
  EXPECT_EQ(a.add(2, blob), second);
  EXPECT_EQ(a.transport().find_peer({1, 3}), third);
  EXPECT_EQ(a.transport().find_peer({2, 3}), nullptr);
  EXPECT_EQ(a.transport().peers(), (std::vector<Endpoint*>{second, third}));
  a.transport().remove_peer(second);
  EXPECT_EQ(a.transport().find_peer({1, 2}), nullptr);
  EXPECT_EQ(a.transport().peers(), std::vector<Endpoint*>{third});
  EXPECT_NE(a.add(2, blob), second);
}

TEST(Peers, WhatIsSentToARemovedOneCompletesWithAnError) {
  Node a({.rank = 0}), b({.rank = 1});
  Endpoint* unused = a.add(b);
  a.transport().remove_peer(unused);
  EXPECT_FALSE(a.send(unused, std::vector<uint8_t>(8)));
  ASSERT_TRUE(test::pump({&a}, [&] { return !a.send_results.empty(); }));
  EXPECT_EQ(a.send_results.back(), Code::kUnreachable);
}

}  // namespace
}  // namespace roce::transport
