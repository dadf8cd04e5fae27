// Reliable connections between queue pairs of one process: every operation, its bytes and its
// errors.
#include <algorithm>

#include "rig.h"

namespace roce::soft::test {
namespace {

TEST(SoftRc, SendArrivesWithItsBytes) {
  Pair pair;
  std::memcpy(pair.a.data, "hello over RoCE", 16);
  ASSERT_EQ(pair.b.receive(7, 0, 64), 0);
  ASSERT_EQ(pair.a.send(3, IBV_WR_SEND, 0, 16), 0);
  const ibv_wc received = pair.b.wait();
  ASSERT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 16u);
  EXPECT_EQ(received.qp_num, pair.b.qp->qp_num);
  EXPECT_STREQ(reinterpret_cast<char*>(pair.b.data), "hello over RoCE");
  const ibv_wc sent = pair.a.wait();
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.wr_id, 3u);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
}

TEST(SoftRc, PingPongKeepsOrder) {
  Pair pair;
  for (uint64_t i = 0; i < 2000; ++i) {
    Rig& from = i % 2 == 0 ? pair.a : pair.b;
    Rig& to = i % 2 == 0 ? pair.b : pair.a;
    ASSERT_EQ(to.receive(i, 8, 8), 0);
    std::memcpy(from.data, &i, 8);
    ASSERT_EQ(from.send(i, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE), 0);
    const ibv_wc received = to.wait();
    ASSERT_EQ(received.status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(received.wr_id, i);
    uint64_t got = 0;
    std::memcpy(&got, to.data + 8, 8);
    ASSERT_EQ(got, i);
    ASSERT_EQ(from.wait().wr_id, i);
  }
}

uint64_t address_of(const Rig& rig, size_t offset = 0) {
  return reinterpret_cast<uintptr_t>(rig.data + offset);
}

void fill(uint8_t* data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<uint8_t>((i * 131 + i / 251 + seed) >> 1);
}

TEST(SoftRc, WritesAndReadsOfAllSizesCarryTheirBytes) {
  constexpr size_t kBytes = 3 << 20;
  Pair pair({}, kBytes);
  for (const size_t bytes :
       {1ul, 3ul, 8ul, 511ul, 512ul, 513ul, 4095ul, 4096ul, 4097ul, 65535ul, 262144ul, 1048577ul}) {
    fill(pair.a.data, bytes, bytes);
    std::memset(pair.b.data, 0, bytes + 8);
    ASSERT_EQ(pair.a.send(1, IBV_WR_RDMA_WRITE, 0, bytes, 0, address_of(pair.b), pair.b.mr->rkey),
              0);
    ibv_wc wc = pair.a.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << bytes;
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
    ASSERT_EQ(std::memcmp(pair.a.data, pair.b.data, bytes), 0) << bytes;
    EXPECT_EQ(pair.b.data[bytes], 0) << "beyond the end of " << bytes;
    fill(pair.b.data, bytes, bytes + 1);
    ASSERT_EQ(pair.a.send(2, IBV_WR_RDMA_READ, 0, bytes, 0, address_of(pair.b), pair.b.mr->rkey),
              0);
    wc = pair.a.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << bytes;
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
    ASSERT_EQ(std::memcmp(pair.a.data, pair.b.data, bytes), 0) << bytes;
  }
}

TEST(SoftRc, WriteWithImmediateConsumesAReceive) {
  Pair pair;
  std::memcpy(pair.a.data, "imm", 4);
  ASSERT_EQ(pair.b.receive(5, 1024, 0), 0);
  ibv_sge element = pair.a.sge(0, 4);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = 0xDEADBEEF;
  wr.wr.rdma = {address_of(pair.b, 256), pair.b.mr->rkey};
  ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  const ibv_wc wc = pair.b.wait();
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.imm_data, 0xDEADBEEFu);
  EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_STREQ(reinterpret_cast<char*>(pair.b.data + 256), "imm");
}

TEST(SoftRc, AtomicsReturnTheOldValue) {
  Pair pair;
  uint64_t word = 40;
  std::memcpy(pair.b.data, &word, 8);
  const auto old = [&] {
    uint64_t value = 0;
    std::memcpy(&value, pair.a.data, 8);
    return value;
  };
  ASSERT_EQ(
      pair.a.send(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0, address_of(pair.b), pair.b.mr->rkey, 2),
      0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(old(), 40u);
  ASSERT_EQ(pair.a.send(2, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 0, address_of(pair.b), pair.b.mr->rkey,
                        42, 7),
            0);
  ibv_wc wc = pair.a.wait();
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(old(), 42u);
  ASSERT_EQ(pair.a.send(3, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 0, address_of(pair.b), pair.b.mr->rkey,
                        42, 9),
            0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(old(), 7u);
  std::memcpy(&word, pair.b.data, 8);
  EXPECT_EQ(word, 7u);
}

TEST(SoftRc, ScatterAndGatherCrossElements) {
  Pair pair;
  fill(pair.a.data, 8192, 3);
  ibv_sge out[3] = {pair.a.sge(0, 1000), pair.a.sge(2000, 3), pair.a.sge(4000, 3000)};
  ibv_sge in[4] = {pair.b.sge(0, 7), pair.b.sge(1000, 1500), pair.b.sge(5000, 1),
                   pair.b.sge(6000, 4000)};
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  receive.sg_list = in;
  receive.num_sge = 4;
  ASSERT_EQ(ibv_post_recv(pair.b.qp, &receive, &bad_receive), 0);
  ibv_send_wr send{}, *bad = nullptr;
  send.sg_list = out;
  send.num_sge = 3;
  send.opcode = IBV_WR_SEND;
  ASSERT_EQ(ibv_post_send(pair.a.qp, &send, &bad), 0);
  const ibv_wc wc = pair.b.wait();
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 4003u);
  std::vector<uint8_t> sent, got;
  for (const ibv_sge& e : out)
    sent.insert(sent.end(), reinterpret_cast<uint8_t*>(e.addr),
                reinterpret_cast<uint8_t*>(e.addr) + e.length);
  for (const ibv_sge& e : in)
    got.insert(got.end(), reinterpret_cast<uint8_t*>(e.addr),
               reinterpret_cast<uint8_t*>(e.addr) + e.length);
  got.resize(sent.size());
  EXPECT_EQ(sent, got);
}

TEST(SoftRc, InlineDataMayBeReusedAtOnce) {
  QpOptions options;
  options.max_inline = 512;
  Pair pair(options);
  for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(pair.b.receive(i, i * 512, 512), 0);
  for (uint64_t i = 0; i < 32; ++i) {
    std::memset(pair.a.data, static_cast<int>(i + 1), 512);
    ASSERT_EQ(pair.a.send(i, IBV_WR_SEND, 0, 512, IBV_SEND_INLINE), 0);
  }
  std::memset(pair.a.data, 0, 512);
  for (uint64_t i = 0; i < 32; ++i) {
    ASSERT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
    for (int k = 0; k < 512; ++k) ASSERT_EQ(pair.b.data[i * 512 + k], i + 1) << i;
  }
  EXPECT_EQ(pair.a.send(0, IBV_WR_SEND, 0, 513, IBV_SEND_INLINE), EINVAL);
}

TEST(SoftRc, FullQueuesAnswerEnomemAndNameTheRequest) {
  QpOptions options;
  options.depth = 4;
  Rig rig(options);
  rig.make_memory(4096);
  ASSERT_EQ(rig.to_init(), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(rig.receive(i, 0, 8), 0);
  EXPECT_EQ(rig.receive(4, 0, 8), ENOMEM);
  // Nobody answers at this number, so that nothing completes.
  Name nobody = rig.name();
  nobody.qpn ^= 1;
  ASSERT_EQ(rig.to_rtr(nobody), 0);
  ASSERT_EQ(rig.to_rts(), 0);
  ibv_sge element = rig.sge(0, 8);
  ibv_send_wr wr[6] = {}, *bad = nullptr;
  for (int i = 0; i < 6; ++i) {
    wr[i].wr_id = i;
    wr[i].sg_list = &element;
    wr[i].num_sge = 1;
    wr[i].opcode = IBV_WR_SEND;
    wr[i].next = i < 5 ? &wr[i + 1] : nullptr;
  }
  EXPECT_EQ(ibv_post_send(rig.qp, wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr[4]);
}

TEST(SoftRc, QueuesGrowUpToTheirDepthAndKeepWhatTheyHold) {
  constexpr uint32_t kDepth = 100, kPlace = 512;
  QpOptions options;
  options.depth = kDepth;
  options.max_inline = 200;
  Pair pair(options);
  for (uint64_t i = 0; i < 5; ++i) {  // The numbers of the ring do not begin at 0 later.
    ASSERT_EQ(pair.b.receive(i, 0, 8), 0);
    ASSERT_EQ(pair.a.send(i, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE), 0);
    ASSERT_EQ(pair.b.wait().wr_id, i);
    ASSERT_EQ(pair.a.wait().wr_id, i);
  }
  // Without receives nothing completes, so all of them are in the queue together.
  auto length_of = [](uint64_t i) { return static_cast<uint32_t>((i * 37 + 164) % 201); };
  for (uint64_t i = 0; i < kDepth; ++i) {
    const bool inlined = i % 3 != 0;
    const size_t from = (inlined ? uint64_t{kDepth} : i) * kPlace;
    uint8_t* bytes = pair.a.data + from;
    for (uint32_t k = 0; k < length_of(i); ++k) bytes[k] = static_cast<uint8_t>(i * 7 + k);
    ASSERT_EQ(pair.a.send(i, IBV_WR_SEND, from, length_of(i), inlined ? IBV_SEND_INLINE : 0), 0)
        << i;
  }
  EXPECT_EQ(pair.a.send(kDepth, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE), ENOMEM);
  for (uint64_t i = 0; i < kDepth; ++i) ASSERT_EQ(pair.b.receive(i, i * kPlace, kPlace), 0);
  for (uint64_t i = 0; i < kDepth; ++i) {
    const ibv_wc wc = pair.a.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, i);
  }
  for (uint64_t i = 0; i < kDepth; ++i) {
    const ibv_wc wc = pair.b.wait();
    ASSERT_EQ(wc.wr_id, i);
    ASSERT_EQ(wc.byte_len, length_of(i));
    for (uint32_t k = 0; k < wc.byte_len; ++k) {
      ASSERT_EQ(pair.b.data[i * kPlace + k], static_cast<uint8_t>(i * 7 + k)) << i << " " << k;
    }
  }
}

TEST(SoftRc, UnsignaledRequestsFreeTheirPlaces) {
  QpOptions options;
  options.depth = 4;
  Pair pair(options);
  ibv_sge element = pair.a.sge(0, 8);
  for (uint64_t i = 1; i <= 400; ++i) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {address_of(pair.b), pair.b.mr->rkey};
    wr.send_flags = i % 4 == 0 ? IBV_SEND_SIGNALED : 0;
    ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0) << i;
    if (i % 4 == 0) {
      ASSERT_EQ(pair.a.wait().wr_id, i);
    }
  }
}

struct BadAccess {
  const char* what;
  ibv_wr_opcode opcode;
  int access;      ///< Of the remote region.
  int64_t offset;  ///< From its start.
  uint32_t bytes;
  uint32_t key_xor;  ///< Changes the key.
};

class SoftRcAccess : public testing::TestWithParam<BadAccess> {};

TEST_P(SoftRcAccess, EndsInARemoteAccessError) {
  const BadAccess& bad = GetParam();
  Rig a, b;
  a.make_memory(8192);
  b.make_memory(4096, bad.access);
  a.connect(b.name());
  b.connect(a.name());
  ASSERT_EQ(a.send(9, bad.opcode, 0, bad.bytes, 0,
                   address_of(b) + static_cast<uint64_t>(bad.offset), b.mr->rkey ^ bad.key_xor),
            0);
  const ibv_wc wc = a.wait();
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR) << bad.what;
  EXPECT_EQ(wc.wr_id, 9u);
  for (size_t i = 0; i < 4096; ++i) ASSERT_EQ(b.data[i], 0);
  // Both ends are in error: a further request is flushed.
  ASSERT_EQ(a.send(10, IBV_WR_RDMA_WRITE, 0, 8, 0, address_of(b), b.mr->rkey), 0);
  EXPECT_EQ(a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;
INSTANTIATE_TEST_SUITE_P(
    All, SoftRcAccess,
    testing::Values(BadAccess{"wrong key", IBV_WR_RDMA_WRITE, kAll, 0, 8, 1},
                    BadAccess{"no write access", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ, 0, 8,
                              0},
                    BadAccess{"no read access", IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, 0, 8, 0},
                    BadAccess{"no atomic access", IBV_WR_ATOMIC_FETCH_AND_ADD,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 8, 0},
                    BadAccess{"beyond the end", IBV_WR_RDMA_WRITE, kAll, 4090, 8, 0},
                    BadAccess{"before the start", IBV_WR_RDMA_WRITE, kAll, -8, 8, 0},
                    BadAccess{"far away", IBV_WR_RDMA_READ, kAll, INT64_MAX, 8, 0}),
    [](const auto& info) {
      std::string name = info.param.what;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(SoftRc, AccessOfTheQueuePairCountsToo) {
  QpOptions closed;
  closed.access = 0;
  Rig a, b(closed);
  a.make_memory(4096);
  b.make_memory(4096);
  a.connect(b.name());
  b.connect(a.name());
  ASSERT_EQ(a.send(1, IBV_WR_RDMA_READ, 0, 8, 0, address_of(b), b.mr->rkey), 0);
  const ibv_wc_status status = a.wait().status;
  EXPECT_TRUE(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR) << status;
}

TEST(SoftRc, ADeregisteredRegionStopsWorking) {
  Pair pair;
  ibv_mr* extra = reg_mr(pair.b.pd, pair.b.data, 4096, kAll);
  ASSERT_NE(extra, nullptr);
  const uint32_t key = extra->rkey;
  ASSERT_EQ(pair.a.send(1, IBV_WR_RDMA_WRITE, 0, 8, 0, address_of(pair.b), key), 0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(dereg_mr(extra), 0);
  ASSERT_EQ(pair.a.send(2, IBV_WR_RDMA_WRITE, 0, 8, 0, address_of(pair.b), key), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(SoftRc, AWrongLocalKeyEndsInALocalProtectionError) {
  Pair pair;
  ibv_sge element = pair.a.sge(0, 8);
  element.lkey ^= 1;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(SoftRc, SendWithoutReceiveWaitsForOne) {
  Pair pair;
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 8), 0);
  ibv_wc wc{};
  const auto start = std::chrono::steady_clock::now();
  while (seconds_since(start) < 0.05) ASSERT_EQ(ibv_poll_cq(pair.b.cq, 1, &wc), 0);
  ASSERT_EQ(pair.b.receive(2, 0, 8), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
}

TEST(SoftRc, ASilentPeerEndsInRetryExceededAndTheTextNamesIt) {
  QpOptions options;
  options.timeout = 8;  // 4.096 us * 2^8 * (retry_cnt + 1): about 2 ms in all.
  options.retry_cnt = 1;
  Rig rig(options);
  rig.make_memory(4096);
  Name nobody = rig.name();
  nobody.qpn ^= 1;
  rig.connect(nobody);
  ASSERT_EQ(rig.send(1, IBV_WR_SEND, 0, 8), 0);
  char text[512];
  ASSERT_GT(describe_qp(rig.qp, text, sizeof text), 0);
  EXPECT_NE(std::string(text).find("127.0.0.1"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find("in RTS"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find(std::to_string(nobody.qpn)), std::string::npos) << text;
  EXPECT_EQ(rig.wait().status, IBV_WC_RETRY_EXC_ERR);
  describe_qp(rig.qp, text, sizeof text);
  EXPECT_NE(std::string(text).find("in ERR"), std::string::npos) << text;
}

TEST(SoftRc, Ipv6AddressesWork) {
  Rig probe;
  if (gid_index(probe.context, kIpv6Loopback) < 0) GTEST_SKIP() << "no IPv6 loopback address";
  Pair pair({}, 1 << 20, kIpv6Loopback);
  fill(pair.a.data, 300000, 5);
  ASSERT_EQ(pair.a.send(1, IBV_WR_RDMA_WRITE, 0, 300000, 0, address_of(pair.b), pair.b.mr->rkey),
            0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.a.data, pair.b.data, 300000), 0);
}

TEST(SoftRc, LargeSegmentsBetweenAgreedDevices) {
  Rig a, b;
  a.make_memory(1 << 20);
  b.make_memory(1 << 20);
  PeerHints hints;
  ASSERT_EQ(device_hints(a.context, &hints), 0);
  EXPECT_GT(hints.max_path_mtu_bytes, 4096u);
  EXPECT_EQ(hints.capabilities, kCapSoft | kCapLazyAck | kCapSelective | kCapGrants);
  for (Rig* rig : {&a, &b}) {
    ASSERT_EQ(rig->to_init(), 0);
    ASSERT_EQ(set_peer_hints(rig->qp, &hints), 0);
    ASSERT_EQ(rig->to_rtr(rig == &a ? b.name() : a.name()), 0);
    ASSERT_EQ(rig->to_rts(), 0);
  }
  fill(a.data, 1 << 20, 11);
  const uint64_t before = counter("tx_packets");
  ASSERT_EQ(a.send(1, IBV_WR_RDMA_WRITE, 0, 1 << 20, 0, address_of(b), b.mr->rkey), 0);
  ASSERT_EQ(a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(a.data, b.data, 1 << 20), 0);
  // 1 MiB in segments of 4,096 bytes would be 256 packets.
  EXPECT_LT(counter("tx_packets") - before, 200u);
}

}  // namespace
}  // namespace roce::soft::test
