// UdpPort on loopback: trains, their ICRCs, slots, and what is refused.
#include "soft/udp_port.h"

#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "udp_reference.h"

namespace roce::soft::test {
namespace {

class UdpPortTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    port_ = open_port();
    ASSERT_NE(port_, nullptr);
    if (!ipv4() && !port_->has_ipv6()) GTEST_SKIP() << "no IPv6 on this host";
  }
  static bool ipv4() { return GetParam(); }
  Route route(uint16_t dst_port, uint32_t hash = 0) {
    return route_to_port(*port_, ipv4(), dst_port, hash);
  }
  Route route_to_self() { return route(port_->port()); }
  std::vector<uint64_t> trains_and_datagrams() {
    return {port_->counters().tx_trains, port_->counters().tx_datagrams};
  }
  using Counts = std::vector<uint64_t>;

  std::unique_ptr<UdpPort> port_;
};
INSTANTIATE_TEST_SUITE_P(Families, UdpPortTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "IPv4" : "IPv6"; });

TEST(UdpPort, ReceiveBufferIsWhatWasAskedFor) {
  auto port = UdpPort::open({.receive_buffer_bytes = 100'000});
  ASSERT_TRUE(port) << port.status().text();
  EXPECT_EQ((*port)->receive_buffer_bytes(), 200'000u);  // socket(7): the kernel doubles it.
}

TEST_P(UdpPortTest, SegmentsCutByTheKernelHaveTheIcrcOfTheirIpId) {
  PlainSocket receiver(ipv4());
  Route to = route(receiver.port());
  std::vector<Bytes> sent;
  for (int i = 0; i < 10; ++i) sent.push_back(some_payload(300, i));
  sent.push_back(some_payload(97, 99));
  for (const Bytes& payload : sent) ASSERT_TRUE(add(*port_, to, payload));
  ASSERT_TRUE(port_->flush());
  const auto got = receiver.receive(sent.size());
  ASSERT_EQ(got.size(), sent.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Bytes expected = expected_datagram(some_header(), sent[i]);
    EXPECT_EQ(got[i], with_icrc(to.flow, expected, static_cast<uint16_t>(i))) << "segment " << i;
  }
  EXPECT_EQ(trains_and_datagrams(), (Counts{1, 11}));
}

TEST_P(UdpPortTest, TrainArrivesJoinedWithFlowTosAndRightIcrcs) {
  Route to = route_to_self();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(add(*port_, to, some_payload(1000, i)));
  ASSERT_TRUE(add(*port_, to, some_payload(8, 77)));
  ASSERT_TRUE(port_->flush());
  const auto got = receive_all(*port_, 11);
  ASSERT_EQ(got.size(), 11u);
  EXPECT_EQ(port_->counters().rx_buffers, 1u);
  EXPECT_EQ(port_->counters().rx_datagrams, 11u);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].icrc_ok) << "segment " << i;
    EXPECT_EQ(got[i].tos, 106);
    EXPECT_EQ(std::memcmp(got[i].flow.src, to.flow.src, 16), 0);
    EXPECT_EQ(std::memcmp(got[i].flow.dst, to.flow.dst, 16), 0);
    EXPECT_EQ(got[i].flow.src_port, to.flow.src_port);
    EXPECT_EQ(got[i].flow.dst_port, port_->port());
    const Bytes payload = i < 10 ? some_payload(1000, i) : some_payload(8, 77);
    EXPECT_EQ(got[i].bytes, with_icrc(to.flow, expected_datagram(some_header(), payload), i));
  }
  EXPECT_GE(to.flow.src_port, 0xC000);
  EXPECT_EQ(port_->counters().rx_icrc_by_id, 0u);
  EXPECT_EQ(port_->counters().rx_bad_icrc, 0u);
}

TEST_P(UdpPortTest, GatheredAndCopiedPayloadsLeaveTheSameBytes) {
  PlainSocket receiver(ipv4());
  Route to = route(receiver.port());
  const Bytes payload = some_payload(4093);
  auto* base = const_cast<uint8_t*>(payload.data());
  std::vector<iovec> few{{base, 1000}, {base + 1000, 0}, {base + 1000, 3093}}, many;
  for (size_t i = 0; i < 4093; i += 31) many.push_back({base + i, std::min<size_t>(31, 4093 - i)});
  const Bytes header = some_header(28);
  for (const auto& [pieces, copy] : {std::pair{few, false}, {few, true}, {many, false}}) {
    ASSERT_TRUE(port_->add(to, 106, header, pieces, 4093, copy));
    ASSERT_TRUE(port_->flush());
    const auto got = receiver.receive(1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0], with_icrc(to.flow, expected_datagram(header, payload), 0));
  }
}

TEST_P(UdpPortTest, ShorterPacketEndsATrainAndLongerOneBeginsTheNext) {
  Route to = route_to_self();
  for (const size_t bytes : {100, 100, 60, 100, 200, 200}) {
    ASSERT_TRUE(add(*port_, to, some_payload(bytes)));
  }
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(trains_and_datagrams(), (Counts{3, 6}));  // 100 100 60 | 100 | 200 200
  for (const auto& got : receive_all(*port_, 6)) EXPECT_TRUE(got.icrc_ok);
}

TEST_P(UdpPortTest, TrainHasAtMost64SegmentsAnd65000Bytes) {
  Route to = route_to_self();
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(add(*port_, to, some_payload(8)));
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(trains_and_datagrams(), (Counts{2, 70}));
  ASSERT_EQ(receive_all(*port_, 70).size(), 70u);
  const Bytes payload = some_payload(4096);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(add(*port_, to, payload));
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(trains_and_datagrams(), (Counts{4, 90}));  // 15 x 4112 = 61,680
  const auto got = receive_all(*port_, 20);
  ASSERT_EQ(got.size(), 20u);
  for (const auto& one : got) EXPECT_TRUE(one.icrc_ok);
}

TEST_P(UdpPortTest, TrainKeepsOneRouteAndOneTos) {
  Route a = route_to_self(), b = route_to_self(), single = route_to_self();
  single.no_trains = true;
  const Bytes payload = some_payload(40), header = some_header();
  const iovec piece{const_cast<uint8_t*>(payload.data()), payload.size()};
  for (const auto& [to, tos] : {std::pair{&a, 106}, {&a, 192}, {&a, 192}, {&b, 192}}) {
    ASSERT_TRUE(port_->add(*to, tos, header, {&piece, 1}, 40, false));
  }
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(*port_, single, payload));
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(trains_and_datagrams(), (Counts{6, 7}));
  const auto got = receive_all(*port_, 7);
  ASSERT_EQ(got.size(), 7u);
  const uint8_t tos[] = {106, 192, 192, 192, 106, 106, 106};
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_TRUE(got[i].icrc_ok);
    EXPECT_EQ(got[i].tos, tos[i]) << i;
  }
}

TEST_P(UdpPortTest, RoomIsWhatTheOpenTrainStillTakes) {
  Route to = route_to_self(), other = route_to_self();
  EXPECT_EQ(port_->open_train_room(to), 0u);
  ASSERT_TRUE(add(*port_, to, some_payload(4096)));
  EXPECT_EQ(port_->open_train_room(to), 4112u);
  EXPECT_EQ(port_->open_train_room(other), 0u);
  for (int i = 1; i < 15; ++i) ASSERT_TRUE(add(*port_, to, some_payload(4096)));
  EXPECT_EQ(port_->open_train_room(to), 65000u - 15 * 4112);
  ASSERT_TRUE(add(*port_, to, some_payload(4)));  // Shorter: the train is closed.
  EXPECT_EQ(port_->open_train_room(to), 0u);
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(port_->open_train_room(to), 0u);
  EXPECT_EQ(trains_and_datagrams(), (Counts{1, 16}));
}

TEST_P(UdpPortTest, AnyCorruptedByteButTheMaskedOneIsFound) {
  PlainSocket sender(ipv4());
  wire::Flow flow = loopback_flow(ipv4(), port_->port());
  flow.src_port = sender.port();
  const Bytes good = with_icrc(flow, expected_datagram(some_header(), some_payload(13)), 0);
  for (size_t i = 0; i <= good.size(); ++i) {
    Bytes sent = good;
    if (i < good.size()) sent[i] ^= 0x40;
    ASSERT_TRUE(sender.send(ipv4(), port_->port(), sent));
    const auto got = receive_all(*port_, 1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].icrc_ok, i == 4 || i == good.size()) << "byte " << i;
  }
  EXPECT_EQ(port_->counters().rx_bad_icrc, good.size() - 1);
}

TEST_P(UdpPortTest, UnusableDatagramsAreCountedAndPassedOver) {
  PlainSocket sender(ipv4());
  for (const size_t bytes : {0, 1, 12, 15}) {
    ASSERT_TRUE(sender.send(ipv4(), port_->port(), Bytes(bytes, 0xA5)));
  }
  const auto got = receive_all(*port_, 3);
  ASSERT_EQ(got.size(), 3u);
  for (const auto& one : got) EXPECT_FALSE(one.icrc_ok);
  EXPECT_EQ(port_->counters().rx_truncated, 1u);
  EXPECT_EQ(port_->counters().rx_bad_icrc, 3u);
  ReceivedBuffer lie;
  const Bytes data(40);
  lie.data = data.data();
  lie.bytes = lie.segment_bytes = 40;
  for (const uint32_t index : {1u, 2u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_FALSE(port_->icrc_ok(lie, index, true));
  }
}

TEST_P(UdpPortTest, ManyLoneDatagramsArriveInFewCalls) {
  PlainSocket sender(ipv4());
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(sender.send(ipv4(), port_->port(), some_payload(64, i)));
  const auto got = receive_all(*port_, 100);
  ASSERT_EQ(got.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(got[i].bytes, some_payload(64, i));
  EXPECT_LE(port_->counters().rx_calls, 15u);
}

TEST_P(UdpPortTest, BatchIsBoundedAndTakesMoreAfterFlush) {
  PlainSocket receiver(ipv4());
  Route to = route(receiver.port());
  const Bytes payload = some_payload(4096);
  int taken = 0;
  while (add(*port_, to, payload)) ASSERT_LT(++taken, 10000);
  EXPECT_GE(taken, 60);
  EXPECT_FALSE(port_->empty());
  ASSERT_TRUE(port_->flush());
  EXPECT_TRUE(port_->empty());
  EXPECT_EQ(port_->counters().tx_calls, 1u);
  ASSERT_TRUE(add(*port_, to, payload));
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(receiver.receive(taken + 1).size(), taken + 1u);
}

TEST_P(UdpPortTest, ImpossiblePacketsCountAsLoss) {
  Route to = route_to_self(), nowhere;
  EXPECT_TRUE(add(*port_, to, some_payload(65000)));
  EXPECT_EQ(port_->counters().last_tx_errno, EMSGSIZE);
  EXPECT_TRUE(add(*port_, nowhere, some_payload(8)));
  EXPECT_EQ(port_->counters().last_tx_errno, EAFNOSUPPORT);
  const iovec piece{nullptr, 0};
  EXPECT_TRUE(port_->add(to, 106, some_header(), {&piece, 1}, 8, false));
  EXPECT_EQ(port_->counters().last_tx_errno, EINVAL);
  EXPECT_EQ(port_->counters().tx_errors, 3u);
  EXPECT_TRUE(port_->empty());
}

TEST_P(UdpPortTest, SocketsOfOneBatchAllSend) {
  PlainSocket receiver(ipv4());
  std::vector<Route> routes;
  for (uint32_t hash = 0; hash < 8; ++hash) routes.push_back(route(receiver.port(), hash));
  std::vector<uint16_t> ports;
  for (const Route& one : routes) ports.push_back(one.flow.src_port);
  std::sort(ports.begin(), ports.end());
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  EXPECT_EQ(ports.size(), 4u);
  for (Route& one : routes) ASSERT_TRUE(add(*port_, one, some_payload(600)));
  ASSERT_TRUE(port_->flush());
  EXPECT_EQ(port_->counters().tx_calls, 4u);
  EXPECT_EQ(receiver.receive(8).size(), 8u);
}

TEST(UdpPort, PeersOfAnyIpIdAreAcceptedOnlyAsForeign) {
  auto port = open_port();
  PlainSocket sender(true);
  wire::Flow flow = loopback_flow(true, port->port());
  flow.src_port = sender.port();
  const Bytes packet = expected_datagram(some_header(), some_payload(100));
  struct Case {
    uint16_t id;
    bool soft, foreign;
  };
  for (const auto& [id, soft, foreign] : {Case{0, true, true},
                                          {1, true, true},
                                          {127, true, true},
                                          {128, false, true},
                                          {0x1234, false, true},
                                          {0xFFFF, false, true}}) {
    for (const bool as_foreign : {false, true}) {
      ASSERT_TRUE(sender.send(true, port->port(), with_icrc(flow, packet, id)));
      const auto got = receive_all(*port, 1, as_foreign);
      ASSERT_EQ(got.size(), 1u);
      EXPECT_EQ(got[0].icrc_ok, as_foreign ? foreign : soft) << "IP ID " << id;
    }
  }
  EXPECT_EQ(port->counters().rx_icrc_by_id, 7u);  // 2 of ID 1, 2 of 127, 3 foreign.
  EXPECT_EQ(port->counters().rx_bad_icrc, 3u);
}

TEST(UdpPort, PortsOfOneProcessGetDifferentSlotsAndSkipATakenOne) {
  auto first = open_port();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->port(), 4791 + first->slot());
  PlainSocket blocker(true, first->port() + 1);  // If another program has it, so much the better.
  auto second = open_port(first->slot());
  ASSERT_NE(second, nullptr);
  EXPECT_GE(second->slot(), first->slot() + 2);
  EXPECT_EQ(second->port(), 4791 + second->slot());
  Route to = route_to_port(*first, true, second->port());
  ASSERT_TRUE(add(*first, to, some_payload(8)));
  ASSERT_TRUE(first->flush());
  const auto got = receive_all(*second, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].icrc_ok);
  EXPECT_FALSE(UdpPort::open({.first_slot = 512}));
}

TEST(UdpPort, MemoryInfoShowsWhatWaitsAndWhatWasDropped) {
  auto port = open_port();
  Route to = route_to_port(*port, true, port->port());
  EXPECT_GE(port->receive_buffer_bytes(), 2304u);
  EXPECT_EQ(port->receive_budget_bytes(), port->receive_buffer_bytes() / 2);
  port->update_memory_info();
  EXPECT_EQ(port->receive_queue_bytes(), 0u);
  to.no_trains = true;
  const Bytes payload = some_payload(4096);
  const uint64_t sent = port->receive_buffer_bytes() / 4096 + 1;
  for (uint64_t i = 0; i < sent; ++i) {
    if (!add(*port, to, payload)) --i;
    ASSERT_TRUE(port->flush());
  }
  port->update_memory_info();
  EXPECT_GE(port->receive_queue_bytes(), port->receive_buffer_bytes() / 2);
  const uint64_t dropped = port->counters().kernel_drops;
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(receive_all(*port, sent - dropped).size(), sent - dropped);
  port->update_memory_info();
  EXPECT_EQ(port->counters().kernel_drops, dropped);
}

TEST(UdpPort, ChildThatClosesLeavesTheParentsSocketsAlone) {
  auto port = open_port();
  const pid_t child = fork();
  if (child == 0) {
    port->close_in_child();
    _exit(port->receive().empty() && port->receive_fd() == -1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Route to = route_to_port(*port, true, port->port());
  ASSERT_TRUE(add(*port, to, some_payload(8)));
  ASSERT_TRUE(port->flush());
  EXPECT_EQ(receive_all(*port, 1).size(), 1u);
}

// Seven packets as they come out of a cable behind a device that cuts trains: what the ICRC covers
// besides the datagram, and what the network acts on.
int look_at_the_wire() {
  if (system("ip link set va gso_max_segs 1 && "
             "ip neighbour replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev va") != 0) {
    return 1;
  }
  const int cable = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
  sockaddr_ll end{};
  end.sll_family = AF_PACKET;
  end.sll_protocol = htons(ETH_P_IP);
  end.sll_ifindex = static_cast<int>(if_nametoindex("vb"));
  if (bind(cable, reinterpret_cast<sockaddr*>(&end), sizeof end) != 0) return 2;
  auto port = open_port();
  Route to = route_to_neighbour(*port, 64), near = route_to_neighbour(*port, 5);
  near.tos = 192;
  for (int i = 0; i < 5; ++i) add(*port, to, some_payload(i < 4 ? 1000 : 40));
  for (int i = 0; i < 2; ++i) {
    if (!port->flush() || !add(*port, near, some_payload(8))) return 3;
  }
  if (!port->flush() || port->counters().tx_trains != 3) return 4;
  for (uint16_t i = 0; i < 7; ++i) {
    Bytes packet(2000);
    pollfd waiting{cable, POLLIN, 0};
    if (poll(&waiting, 1, 2000) != 1) return 10 + i;
    packet.resize(std::max<ssize_t>(recv(cable, packet.data(), packet.size(), 0), 0));
    if (packet.size() < 28) return 20 + i;
    const uint16_t id = packet[4] << 8 | packet[5];
    if (id != (i < 5 ? i : 0) || packet[6] != 0x40 || packet[7] != 0) return 30 + i;  // DF
    if (packet[1] != (i < 5 ? 106 : 192) || packet[8] != (i < 5 ? 64 : 5)) return 40 + i;
    const Bytes datagram(packet.begin() + 28, packet.end());
    if (datagram != with_icrc(to.flow, datagram, id)) return 50 + i;
  }
  return 0;
}

TEST(UdpPort, PacketsOnTheCableHaveIpIdsTosAndHopLimitAsBuilt) {
  const int status = run_in_namespace(look_at_the_wire);
  if (status == 77) GTEST_SKIP() << "no network namespace may be made here";
  EXPECT_EQ(status, 0);
}

// What the child does stands for all of it: open, send, receive, check.
TEST(UdpPort, WorksWithoutPrivilege) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 &&
        (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0)) {
      _exit(2);
    }
    auto port = open_port();
    if (port == nullptr) _exit(3);
    Route to = route_to_port(*port, true, port->port());
    for (int i = 0; i < 20; ++i) add(*port, to, some_payload(1000, i));
    if (!port->flush()) _exit(4);
    const auto got = receive_all(*port, 20);
    const bool right = std::all_of(got.begin(), got.end(), [](const auto& d) { return d.icrc_ok; });
    _exit(got.size() == 20 && right && port->counters().tx_trains == 1 ? 0 : 5);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace roce::soft::test
