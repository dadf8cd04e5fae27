#include "verbs/discovery.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <hwloc.h>
#include <net/if.h>

#include <cerrno>
#include <string>
#include <vector>

#include "fake_table.h"
#include "verbs/locality.h"

namespace roce::verbs {
namespace {

Gid gid(const std::string& text, uint32_t index, GidType type = GidType::kRoceV2) {
  Gid out;
  out.index = index;
  out.type = type;
  if (text.find(':') == std::string::npos) {
    out.bytes[10] = out.bytes[11] = 0xFF;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &out.bytes[12]), 1);
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), out.bytes.data()), 1);
  }
  return out;
}

FakePort port_with(std::vector<Gid> gids) {
  FakePort port;
  port.gids = std::move(gids);
  return port;
}

class Discover : public testing::Test {
 protected:
  void SetUp() override { fake_world() = {}; }

  Discovery run(bool with_distance = false) {
    const Table* tables[] = {&fake_table()};
    return discover(tables, with_distance);
  }

  // The one refusal there is.
  Refusal only_refusal() {
    const Discovery found = run();
    EXPECT_TRUE(found.candidates.empty());
    EXPECT_EQ(found.refusals.size(), 1u);
    return found.refusals.empty() ? Refusal{} : found.refusals[0];
  }
};

TEST_F(Discover, UsablePortBecomesCandidateWithRankedGids) {
  fake_world().devices = {
      {.name = "dev0",
       .ports = {port_with({gid("fe80::1", 0, GidType::kRoceV1), gid("fe80::1", 1),
                            gid("10.0.0.1", 2, GidType::kRoceV1), gid("10.0.0.1", 3),
                            gid("0.0.0.0", 4)})}}};
  const Discovery found = run();
  ASSERT_EQ(found.candidates.size(), 1u);
  EXPECT_TRUE(found.refusals.empty());
  const Candidate& candidate = found.candidates[0];
  EXPECT_EQ(candidate.table, &fake_table());
  EXPECT_EQ(candidate.device, "dev0");
  EXPECT_EQ(candidate.port, 1);
  EXPECT_EQ(candidate.active_mtu_bytes, 4096u);
  EXPECT_EQ(candidate.speed_mbps, 100000u);
  ASSERT_EQ(candidate.gids.size(), 4u);
  EXPECT_EQ(candidate.gids[0].index, 3u);
  EXPECT_EQ(candidate.gids[1].index, 1u);
  EXPECT_EQ(candidate.gids[2].index, 2u);
  EXPECT_EQ(fake_world().opened, fake_world().closed);
  EXPECT_EQ(fake_world().lists_freed, 1);
}

TEST_F(Discover, EveryPortIsLookedAtByItself) {
  FakePort down = port_with({gid("10.0.0.1", 0)});
  down.state = IBV_PORT_DOWN;
  fake_world().devices = {{.name = "dev0", .ports = {down, port_with({gid("10.0.1.1", 0)})}}};
  const Discovery found = run();
  ASSERT_EQ(found.candidates.size(), 1u);
  EXPECT_EQ(found.candidates[0].port, 2);
  EXPECT_EQ(gid_text(found.candidates[0].gids[0].bytes), "10.0.1.1");
  ASSERT_EQ(found.refusals.size(), 1u);
  EXPECT_EQ(found.refusals[0].port, 1);
  EXPECT_EQ(found.refusals[0].reason.find("dev0 port 1 is down"), 0u) << found.refusals[0].reason;
}

TEST_F(Discover, RefusesInfiniBand) {
  FakePort port = port_with({gid("fe80::1", 0, GidType::kInfiniBand)});
  port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  fake_world().devices = {{.name = "dev0", .ports = {port}}};
  EXPECT_NE(only_refusal().reason.find("link layer InfiniBand"), std::string::npos);
}

TEST_F(Discover, RefusesIwarpWithoutOpeningIt) {
  fake_world().devices = {{.name = "dev0", .transport = IBV_TRANSPORT_IWARP, .ports = {{}}}};
  EXPECT_NE(only_refusal().reason.find("iWARP"), std::string::npos);
  EXPECT_EQ(fake_world().opened, 0);
}

TEST_F(Discover, RefusesRoceV1Only) {
  fake_world().devices = {
      {.name = "dev0", .ports = {port_with({gid("10.0.0.1", 0, GidType::kRoceV1)})}}};
  EXPECT_NE(only_refusal().reason.find("RoCE v1 only"), std::string::npos);
}

TEST_F(Discover, RefusesPortsWithoutGids) {
  fake_world().devices = {{.name = "dev0", .ports = {port_with({gid("::", 0)})}}};
  EXPECT_NE(only_refusal().reason.find("no usable GID"), std::string::npos);
}

TEST_F(Discover, NamesTheRemedyForDevicesThatCannotBeOpened) {
  fake_world().devices = {{.name = "dev0", .open_error = EACCES, .ports = {{}}}};
  const std::string reason = only_refusal().reason;
  EXPECT_NE(reason.find("Permission denied"), std::string::npos);
  EXPECT_NE(reason.find("/dev/infiniband"), std::string::npos);
}

TEST_F(Discover, NoDeviceIsARefusalOfTheTable) {
  EXPECT_EQ(only_refusal().reason, "fake has no device.");
  fake_world().list_error = ENOSYS;
  EXPECT_EQ(only_refusal().reason, "fake has no device.");
  fake_world().list_error = EPERM;
  EXPECT_EQ(only_refusal().reason, "fake has no device: Operation not permitted (errno 1).");
}

TEST_F(Discover, LoopbackInterfaceGivesNetdevAndPrefix) {
  Gid local = gid("127.0.0.1", 0);
  local.ifindex = if_nametoindex("lo");
  if (local.ifindex == 0) GTEST_SKIP() << "this network namespace has no interface lo";
  fake_world().devices = {{.name = "dev0", .ports = {port_with({local})}}};
  const Discovery found = run();
  ASSERT_EQ(found.candidates.size(), 1u);
  EXPECT_EQ(found.candidates[0].netdev, "lo");
  EXPECT_EQ(found.candidates[0].gids[0].prefix_length, 96 + 8);
}

TEST_F(Discover, DistanceOfUnknownDevicesIsNotKnown) {
  fake_world().devices = {{.name = "no-such-0", .ports = {port_with({gid("10.0.0.1", 0)})}},
                          {.name = "no-such-1", .ports = {port_with({gid("10.0.0.2", 0)})}}};
  const Discovery found = run(true);
  ASSERT_EQ(found.candidates.size(), 2u);
  EXPECT_EQ(found.candidates[0].distance, -1);
}

TEST_F(Discover, LibibverbsNeedsNoDevice) {
  const Table* tables[] = {&system_table()};
  const Discovery found = discover(tables, false);
  EXPECT_FALSE(found.candidates.empty() && found.refusals.empty());
}

TEST(RankCandidates, NearThenFastThenInOrder) {
  const auto candidate = [](const char* name, int distance, uint32_t speed) {
    Candidate out;
    out.device = name;
    out.distance = distance;
    out.speed_mbps = speed;
    return out;
  };
  std::vector<Candidate> list = {candidate("far-fast", 2, 400000), candidate("near", 0, 100000),
                                 candidate("unknown", -1, 100000),
                                 candidate("near-fast", 0, 200000), candidate("mid", 1, 10000)};
  rank_candidates(list);
  std::vector<std::string> order;
  for (const Candidate& each : list) order.push_back(each.device);
  EXPECT_EQ(order, (std::vector<std::string>{"near-fast", "near", "unknown", "mid", "far-fast"}));
}

TEST(PortSpeed, HasTheRatesOfEthernetGenerations) {
  EXPECT_EQ(port_speed_mbps(8, 1), 10000u);     // 10G: FDR10 x1
  EXPECT_EQ(port_speed_mbps(16, 2), 56000u);    // 56G: FDR x4
  EXPECT_EQ(port_speed_mbps(32, 1), 25000u);    // 25G: EDR x1
  EXPECT_EQ(port_speed_mbps(8, 2), 40000u);     // 40G: FDR10 x4
  EXPECT_EQ(port_speed_mbps(32, 16), 50000u);   // 50G: EDR x2
  EXPECT_EQ(port_speed_mbps(32, 2), 100000u);   // 100G: EDR x4
  EXPECT_EQ(port_speed_mbps(64, 2), 200000u);   // 200G: HDR x4
  EXPECT_EQ(port_speed_mbps(128, 2), 400000u);  // 400G: NDR x4
  EXPECT_EQ(port_speed_mbps(0, 2), 0u);
  EXPECT_EQ(port_speed_mbps(32, 0), 0u);
}

TEST(Locality, DistanceFollowsNodesAndPackages) {
  hwloc_topology_t topology;
  ASSERT_EQ(hwloc_topology_init(&topology), 0);
  // Two packages of two NUMA nodes of two processors: nodes 0-1, 2-3, 4-5, 6-7.
  ASSERT_EQ(hwloc_topology_set_synthetic(topology, "pack:2 [numa] l3:2 core:2 pu:1"), 0);
  ASSERT_EQ(hwloc_topology_load(topology), 0);
  hwloc_bitmap_t near = hwloc_bitmap_alloc(), bound = hwloc_bitmap_alloc();
  const auto distance = [&](const char* near_list, const char* bound_list) {
    EXPECT_EQ(hwloc_bitmap_list_sscanf(near, near_list), 0);
    EXPECT_EQ(hwloc_bitmap_list_sscanf(bound, bound_list), 0);
    return processor_distance(topology, near, bound);
  };
  EXPECT_EQ(distance("0-1", "1"), 0);
  EXPECT_EQ(distance("0-1", "0-7"), 0);
  EXPECT_EQ(distance("0-1", "2-3"), 1);
  EXPECT_EQ(distance("0-1", "4"), 2);
  EXPECT_EQ(distance("4-5", "6"), 1);
  EXPECT_EQ(distance("4-5", "0-3"), 2);
  hwloc_bitmap_free(near);
  hwloc_bitmap_free(bound);
  hwloc_topology_destroy(topology);
}

TEST(Locality, UnknownNamesAreNotKnown) {
  const Locality locality;
  EXPECT_EQ(locality.distance("no-such-device", ""), -1);
  EXPECT_EQ(locality.distance("", ""), -1);
}

}  // namespace
}  // namespace roce::verbs
