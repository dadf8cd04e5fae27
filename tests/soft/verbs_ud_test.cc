// Unreliable datagrams: addressing, the 40 bytes in front, keys, and answering by what a completion
// says.
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"

namespace roce::soft::test {
namespace {

constexpr uint32_t kQkey = 0x11111111;  // As Rig::to_init sets it.

QpOptions datagram() {
  QpOptions options;
  options.type = IBV_QPT_UD;
  return options;
}

struct DatagramPair {
  Rig a{datagram()}, b{datagram()};
  ibv_ah* to_b = nullptr;
  explicit DatagramPair(const uint8_t address[16] = kIpv4Loopback) {
    a.make_memory(1 << 16);
    b.make_memory(1 << 16);
    a.connect({});
    b.connect({});
    ibv_ah_attr attr = a.address_vector(b.name(address));
    attr.grh.traffic_class = 0x20;
    to_b = create_ah(a.pd, &attr);
  }
  ~DatagramPair() { EXPECT_EQ(to_b == nullptr ? 0 : destroy_ah(to_b), 0); }

  int send(uint64_t id, uint32_t bytes, uint32_t qkey = kQkey, size_t offset = 0) {
    ibv_sge element = a.sge(offset, bytes);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = 0x01020304;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {to_b, b.qp->qp_num, qkey};
    return ibv_post_send(a.qp, &wr, &bad);
  }
};

TEST(SoftUd, Ipv4MessageArrivesBehindItsIpHeader) {
  DatagramPair pair;
  ASSERT_NE(pair.to_b, nullptr);
  std::memcpy(pair.a.data, "datagram", 9);
  ASSERT_EQ(pair.b.receive(4, 0, 256), 0);
  ASSERT_EQ(pair.send(1, 9), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  const ibv_wc wc = pair.b.wait();
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 49u);
  EXPECT_EQ(wc.src_qp, pair.a.qp->qp_num);
  EXPECT_EQ(wc.imm_data, 0x01020304u);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_GRH} | unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(wc.sl, 8u | 2u);  // As mlx5 devices tell it: with a UDP header, and IPv4.
  EXPECT_STREQ(reinterpret_cast<char*>(pair.b.data + 40), "datagram");
  const uint8_t* ip = pair.b.data + 20;
  EXPECT_EQ(ip[0], 0x45);
  EXPECT_EQ(ip[1], 0x22);  // Traffic class of the address handle with ECT(0).
  EXPECT_EQ(ip[9], 17);
  const uint8_t loopback[4] = {127, 0, 0, 1};
  EXPECT_EQ(std::memcmp(ip + 12, loopback, 4), 0);
  EXPECT_EQ(std::memcmp(ip + 16, loopback, 4), 0);
  // RFC 1071: the sum over a header with its checksum is 0xFFFF.
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += ip[i] << 8 | ip[i + 1];
  EXPECT_EQ((sum & 0xFFFF) + (sum >> 16), 0xFFFFu);
}

// A NIC holds the pages of a region; UCX counts on that when it ends.
TEST(SoftUd, ADatagramForUnmappedMemoryHurtsNobody) {
  DatagramPair pair;
  ASSERT_NE(pair.to_b, nullptr);
  constexpr size_t kBytes = 1 << 16;
  ASSERT_EQ(dereg_mr(pair.b.mr), 0);
  void* const pages =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  pair.b.data = static_cast<uint8_t*>(pages);
  pair.b.mr = reg_mr(pair.b.pd, pages, kBytes, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(pair.b.mr, nullptr);
  ASSERT_EQ(pair.b.receive(4, 0, 256), 0);
  ASSERT_EQ(munmap(pages, kBytes), 0);
  const uint64_t before = counter("placement_faults");
  // Nobody polls: the service thread takes what comes.
  usleep(50'000);
  ASSERT_EQ(pair.send(1, 9), 0);
  for (int i = 0; i < 200 && counter("placement_faults") == before; ++i) usleep(10'000);
  EXPECT_EQ(counter("placement_faults"), before + 1);
}

TEST(SoftUd, Ipv6MessageArrivesBehindItsIpHeader) {
  Rig probe;
  if (gid_index(probe.context, kIpv6Loopback) < 0) GTEST_SKIP() << "no IPv6 loopback address";
  DatagramPair pair(kIpv6Loopback);
  ASSERT_NE(pair.to_b, nullptr);
  ASSERT_EQ(pair.b.receive(4, 0, 256), 0);
  ASSERT_EQ(pair.send(1, 9), 0);
  ASSERT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.data[0] >> 4, 6);
  EXPECT_EQ(pair.b.data[6], 17);
  EXPECT_EQ(std::memcmp(pair.b.data + 8, kIpv6Loopback, 16), 0);
  EXPECT_EQ(std::memcmp(pair.b.data + 24, kIpv6Loopback, 16), 0);
}

TEST(SoftUd, TheHeaderLeadsBackToTheSender) {
  for (const uint8_t* address : {kIpv4Loopback, kIpv6Loopback}) {
    Rig probe;
    if (gid_index(probe.context, address) < 0) continue;
    DatagramPair pair(address);
    ASSERT_EQ(pair.b.receive(4, 0, 256), 0);
    ASSERT_EQ(pair.send(1, 9), 0);
    ibv_wc wc = pair.b.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ibv_ah_attr attr{};
    ASSERT_EQ(
        init_ah_from_wc(pair.b.context, 1, &wc, reinterpret_cast<ibv_grh*>(pair.b.data), &attr), 0);
    EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, address, 16), 0);
    ibv_ah* back = create_ah(pair.b.pd, &attr);
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(pair.a.receive(5, 1024, 256), 0);
    ibv_sge element = pair.b.sge(0, 16);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud = {back, wc.src_qp, kQkey};
    ASSERT_EQ(ibv_post_send(pair.b.qp, &wr, &bad), 0);
    EXPECT_EQ(pair.a.wait().wr_id, 1u);
    EXPECT_EQ(pair.a.wait().wr_id, 5u);
    EXPECT_EQ(destroy_ah(back), 0);
  }
}

TEST(SoftUd, AWrongQkeyIsDroppedAndCounted) {
  DatagramPair pair;
  const uint64_t before = counter("drop_bad_qkey");
  ASSERT_EQ(pair.b.receive(4, 0, 256), 0);
  ASSERT_EQ(pair.send(1, 9, kQkey + 1), 0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  const auto start = std::chrono::steady_clock::now();
  while (counter("drop_bad_qkey") == before && seconds_since(start) < 10) progress();
  EXPECT_EQ(counter("drop_bad_qkey"), before + 1);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(pair.b.cq, 1, &wc), 0);
}

TEST(SoftUd, MessagesBeyondThePathMtuAreRefused) {
  DatagramPair pair;
  EXPECT_EQ(pair.send(1, 4097), EINVAL);
  ASSERT_EQ(pair.b.receive(4, 0, 8192), 0);
  EXPECT_EQ(pair.send(1, 4096), 0);
  EXPECT_EQ(pair.b.wait().byte_len, 4136u);
}

TEST(SoftUd, AHandleMayBeDestroyedRightAfterPosting) {
  DatagramPair pair;
  for (int round = 0; round < 200; ++round) {
    ASSERT_EQ(pair.b.receive(4, 0, 8192), 0);
    ASSERT_EQ(pair.send(1, 2000), 0);
    ASSERT_EQ(destroy_ah(pair.to_b), 0);
    ibv_ah_attr attr = pair.a.address_vector(pair.b.name());
    pair.to_b = create_ah(pair.a.pd, &attr);
    ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    ASSERT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  }
}

TEST(SoftUd, ManyMessagesKeepTheirOwnBytes) {
  DatagramPair pair;
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < 16; ++i) {
      std::memset(pair.a.data + i * 2048, static_cast<int>(round + i), 2048);
      ASSERT_EQ(pair.b.receive(i, i * 2112, 2112), 0);
    }
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.send(i, 2000, kQkey, i * 2048), 0);
    for (uint64_t i = 0; i < 16; ++i) {
      ASSERT_EQ(pair.b.wait().wr_id, i);
      ASSERT_EQ(pair.b.data[i * 2112 + 40 + 1999], static_cast<uint8_t>(round + i));
    }
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  }
}

TEST(SoftUd, MalformedAddressVectorsAreRefused) {
  Rig rig(datagram());
  ibv_ah_attr attr = rig.address_vector(rig.name());
  attr.is_global = 0;
  EXPECT_EQ(create_ah(rig.pd, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = rig.address_vector(rig.name());
  attr.grh.sgid_index = 30;
  EXPECT_EQ(create_ah(rig.pd, &attr), nullptr);
  attr = rig.address_vector(rig.name());
  std::memcpy(attr.grh.dgid.raw, kIpv6Loopback, 16);  // From an IPv4 address.
  EXPECT_EQ(create_ah(rig.pd, &attr), nullptr);
}

}  // namespace
}  // namespace roce::soft::test
