// Operations of a reliable connection that succeed.
#include <cstring>

#include "behaviour.h"

namespace roce::verbs {
namespace {

// Around the path MTU of 1024 and beyond a few windows.
constexpr size_t kSizes[] = {0, 1, 3, 64, 1023, 1024, 1025, 4096, 10001, 300007};

TEST_P(Behaviour, SendArrivesWithLengthOpcodeAndQueuePair) {
  End a = make_end(), b = make_end();
  connect(a, b);
  uint32_t seed = 0;
  for (size_t bytes : kSizes) {
    b.fill(0, bytes + 8, 999);
    a.fill(100, bytes, ++seed);
    ASSERT_EQ(b.post_recv(1000 + seed, 0, bytes + 8), 0);
    ASSERT_EQ(a.post(a.request(seed, IBV_WR_SEND, 100, bytes)), 0);
    const ibv_wc sent = take_one(a.send_cq);
    ASSERT_EQ(sent.status, IBV_WC_SUCCESS) << bytes;
    EXPECT_EQ(sent.wr_id, seed);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_EQ(sent.qp_num, a.qp.qpn());
    const ibv_wc received = take_one(b.recv_cq);
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 1000u + seed);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(received.qp_num, b.qp.qpn());
    EXPECT_FALSE(received.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_TRUE(b.holds(0, bytes, seed)) << bytes;
    const std::vector<uint8_t> old = End::pattern(bytes + 8, 999);
    EXPECT_EQ(0, std::memcmp(b.at(bytes), old.data() + bytes, 8)) << "written past the end";
  }
}

TEST_P(Behaviour, SendWithImmediateCarriesItUnchanged) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (size_t bytes : {size_t{0}, size_t{10}, size_t{5000}}) {
    ASSERT_EQ(b.post_recv(1, 0, 8192), 0);
    ibv_send_wr request = a.request(2, IBV_WR_SEND_WITH_IMM, 0, bytes);
    const uint8_t wire[4] = {0x12, 0x34, 0x56, 0x78};
    std::memcpy(&request.imm_data, wire, 4);
    ASSERT_EQ(a.post(request), 0);
    const ibv_wc received = take_one(b.recv_cq);
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_TRUE(received.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(0, std::memcmp(&received.imm_data, wire, 4));
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  }
}

TEST_P(Behaviour, WriteReachesExactlyItsBytes) {
  End a = make_end(), b = make_end();
  connect(a, b);
  uint32_t seed = 0;
  for (size_t bytes : kSizes) {
    ++seed;
    a.fill(0, bytes, seed);
    b.fill(0, bytes + 200, 999);
    const std::vector<uint8_t> old = End::pattern(bytes + 200, 999);
    ASSERT_EQ(a.post(a.rdma(seed, IBV_WR_RDMA_WRITE, 0, bytes, b.address(101), b.region.rkey())),
              0);
    const ibv_wc wrote = take_one(a.send_cq);
    ASSERT_EQ(wrote.status, IBV_WC_SUCCESS) << bytes;
    EXPECT_EQ(wrote.opcode, IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(b.holds(101, bytes, seed)) << bytes;
    EXPECT_EQ(0, std::memcmp(b.at(0), old.data(), 101));
    EXPECT_EQ(0, std::memcmp(b.at(101 + bytes), old.data() + 101 + bytes, 99));
  }
  EXPECT_TRUE(stays_empty(b.recv_cq, std::chrono::milliseconds(1)));
}

TEST_P(Behaviour, WriteWithImmediateTakesAReceive) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (size_t bytes : {size_t{0}, size_t{40}, size_t{5000}}) {
    a.fill(0, bytes, 5);
    ASSERT_EQ(b.post_recv(77, 600000, 8), 0);
    ibv_send_wr request =
        a.rdma(1, IBV_WR_RDMA_WRITE_WITH_IMM, 0, bytes, b.address(64), b.region.rkey());
    request.imm_data = 0xA1B2C3D4;
    ASSERT_EQ(a.post(request), 0);
    const ibv_wc received = take_one(b.recv_cq);
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 77u);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_TRUE(received.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(received.imm_data, 0xA1B2C3D4u);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_TRUE(b.holds(64, bytes, 5));
    EXPECT_EQ(take_one(a.send_cq).opcode, IBV_WC_RDMA_WRITE);
  }
}

TEST_P(Behaviour, ReadFetchesExactlyItsBytes) {
  End a = make_end(), b = make_end();
  connect(a, b);
  uint32_t seed = 50;
  for (size_t bytes : kSizes) {
    ++seed;
    b.fill(33, bytes, seed);
    a.fill(0, bytes + 100, 999);
    const std::vector<uint8_t> old = End::pattern(bytes + 100, 999);
    ASSERT_EQ(a.post(a.rdma(seed, IBV_WR_RDMA_READ, 10, bytes, b.address(33), b.region.rkey())), 0);
    const ibv_wc got = take_one(a.send_cq);
    ASSERT_EQ(got.status, IBV_WC_SUCCESS) << bytes;
    EXPECT_EQ(got.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(got.wr_id, seed);
    EXPECT_TRUE(a.holds(10, bytes, seed)) << bytes;
    EXPECT_EQ(0, std::memcmp(a.at(0), old.data(), 10));
    EXPECT_EQ(0, std::memcmp(a.at(10 + bytes), old.data() + 10 + bytes, 90));
  }
}

TEST_P(Behaviour, MoreReadsThanMayBeOutstandingCompleteInOrder) {
  End a = make_end(), b = make_end();
  RcPath path;
  path.max_rd_atomic = path.max_dest_rd_atomic = 2;
  connect(a, b, path);
  b.fill(0, 64 * 3000, 4);
  for (uint64_t i = 0; i < 64; ++i) {
    ASSERT_EQ(
        a.post(a.rdma(i, IBV_WR_RDMA_READ, i * 3000, 3000, b.address(i * 3000), b.region.rkey())),
        0);
  }
  const std::vector<ibv_wc> got = take(a.send_cq, 64);
  ASSERT_EQ(got.size(), 64u);
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(got[i].wr_id, i);
  }
  EXPECT_TRUE(a.holds(0, 64 * 3000, 4));
}

TEST_P(Behaviour, AtomicsReturnTheOldValue) {
  if (context_.query_device().value().atomic_cap == IBV_ATOMIC_NONE) {
    GTEST_SKIP() << candidate_.device << " has no atomic operations";
  }
  End a = make_end(), b = make_end();
  connect(a, b);
  const auto word = [](End& end, size_t offset) {
    uint64_t value;
    std::memcpy(&value, end.at(offset), 8);
    return value;
  };
  const uint64_t start = 0x1122334455667788;
  std::memcpy(b.at(64), &start, 8);
  ASSERT_EQ(a.post(a.atomic(1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, b.address(64), b.region.rkey(),
                            0x1000000001)),
            0);
  ibv_wc done = take_one(a.send_cq);
  ASSERT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(word(a, 0), start);
  EXPECT_EQ(word(b, 64), start + 0x1000000001);

  // Compares unequal: nothing changes.
  ASSERT_EQ(
      a.post(a.atomic(2, IBV_WR_ATOMIC_CMP_AND_SWP, 8, b.address(64), b.region.rkey(), start, 42)),
      0);
  done = take_one(a.send_cq);
  ASSERT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word(a, 8), start + 0x1000000001);
  EXPECT_EQ(word(b, 64), start + 0x1000000001);

  ASSERT_EQ(a.post(a.atomic(3, IBV_WR_ATOMIC_CMP_AND_SWP, 16, b.address(64), b.region.rkey(),
                            start + 0x1000000001, 42)),
            0);
  ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(word(a, 16), start + 0x1000000001);
  EXPECT_EQ(word(b, 64), 42u);

  // A hundred more, all from one post.
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(a.post(a.atomic(i, IBV_WR_ATOMIC_FETCH_AND_ADD, 800 + 8 * i, b.address(64),
                              b.region.rkey(), 3)),
              0);
  }
  ASSERT_EQ(take(a.send_cq, 100).size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(word(a, 800 + 8 * i), 42 + 3 * i);
  EXPECT_EQ(word(b, 64), 342u);
}

TEST_P(Behaviour, ElementsAreGatheredAndScattered) {
  End a = make_end(), b = make_end();
  connect(a, b);
  a.fill(0, 5000, 8);
  const std::vector<uint8_t> data = End::pattern(5000, 8);
  ibv_sge out[3] = {a.piece(0, 1500), a.piece(1500, 1), a.piece(1501, 3499)};
  ibv_sge in[4] = {b.piece(0, 7), b.piece(100, 2000), b.piece(3000, 2), b.piece(4000, 4000)};
  ibv_recv_wr recv{}, *bad_recv = nullptr;
  recv.sg_list = in;
  recv.num_sge = 4;
  ASSERT_EQ(ibv_post_recv(b.qp.get(), &recv, &bad_recv), 0);
  ibv_send_wr send = a.request(1, IBV_WR_SEND, 0, 1);
  send.sg_list = out;
  send.num_sge = 3;
  ASSERT_EQ(a.post(send), 0);
  EXPECT_EQ(take_one(b.recv_cq).byte_len, 5000u);
  EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(0, std::memcmp(b.at(0), &data[0], 7));
  EXPECT_EQ(0, std::memcmp(b.at(100), &data[7], 2000));
  EXPECT_EQ(0, std::memcmp(b.at(3000), &data[2007], 2));
  EXPECT_EQ(0, std::memcmp(b.at(4000), &data[2009], 2991));
}

TEST_P(Behaviour, InlineDataMayBeReusedAtOnceAndNeedsNoKey) {
  End a = make_end(), b = make_end();
  connect(a, b);
  std::vector<uint8_t> loose(64);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(b.post_recv(static_cast<uint64_t>(i), static_cast<size_t>(i) * 64, 64), 0);
  }
  for (int i = 0; i < 50; ++i) {
    std::fill(loose.begin(), loose.end(), static_cast<uint8_t>(i));
    ibv_sge sge = {reinterpret_cast<uintptr_t>(loose.data()), 64, 0xBAD};
    ibv_send_wr request = a.request(1, IBV_WR_SEND, 0, 1);
    request.sg_list = &sge;
    request.send_flags |= IBV_SEND_INLINE;
    ASSERT_EQ(a.post(request), 0);
    std::fill(loose.begin(), loose.end(), uint8_t{0xFF});
  }
  ASSERT_EQ(take(b.recv_cq, 50).size(), 50u);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(*b.at(static_cast<size_t>(i) * 64), i);
    EXPECT_EQ(*b.at(static_cast<size_t>(i) * 64 + 63), i);
  }
}

TEST_P(Behaviour, UnsignaledRequestsCompleteSilently) {
  End a = make_end(), b = make_end();
  connect(a, b);
  // Several times the depth of the send queue: slots come back with the signaled ones.
  for (uint64_t round = 0; round < 40; ++round) {
    for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(b.post_recv(i, 0, 64), 0);
    for (uint64_t i = 0; i < 16; ++i) {
      ibv_send_wr request = a.request(round * 16 + i, IBV_WR_SEND, 0, 8);
      request.send_flags = i == 15 ? IBV_SEND_SIGNALED : 0;
      ASSERT_EQ(a.post(request), 0);
    }
    ASSERT_EQ(take(b.recv_cq, 16).size(), 16u);
    EXPECT_EQ(take_one(a.send_cq).wr_id, round * 16 + 15);
  }
  EXPECT_TRUE(stays_empty(a.send_cq, std::chrono::milliseconds(1)));
}

TEST_P(Behaviour, SignalAllMakesEveryRequestComplete) {
  EndOptions options;
  options.signal_all = true;
  End a = make_end(options), b = make_end();
  connect(a, b);
  ASSERT_EQ(b.post_recv(1, 0, 64), 0);
  ibv_send_wr request = a.request(9, IBV_WR_SEND, 0, 8);
  request.send_flags = 0;
  ASSERT_EQ(a.post(request), 0);
  EXPECT_EQ(take_one(a.send_cq).wr_id, 9u);
}

TEST_P(Behaviour, WritesArriveBeforeALaterSend) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (uint32_t i = 0; i < 100; ++i) {
    const size_t bytes = 1 + i * 97;
    a.fill(0, bytes, i);
    ASSERT_EQ(b.post_recv(i, 900000, 8), 0);
    ibv_send_wr write = a.rdma(0, IBV_WR_RDMA_WRITE, 0, bytes, b.address(0), b.region.rkey());
    write.send_flags = 0;
    ASSERT_EQ(a.post(write), 0);
    ASSERT_EQ(a.post(a.request(i, IBV_WR_SEND, 0, 1)), 0);
    ASSERT_EQ(take_one(b.recv_cq).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(b.holds(0, bytes, i)) << i;
    ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  }
}

TEST_P(Behaviour, ListsOfRequestsRunInOrder) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(b.post_recv(10 + i, i * 100, 100), 0);
  a.fill(0, 300, 6);
  ibv_sge sge[3];
  ibv_send_wr list[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    sge[i] = a.piece(i * 100, 100);
    list[i].wr_id = i;
    list[i].opcode = IBV_WR_SEND;
    list[i].send_flags = IBV_SEND_SIGNALED;
    list[i].sg_list = &sge[i];
    list[i].num_sge = 1;
    list[i].next = i < 2 ? &list[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a.qp.get(), list, &bad), 0);
  const std::vector<ibv_wc> sent = take(a.send_cq, 3), received = take(b.recv_cq, 3);
  ASSERT_EQ(sent.size(), 3u);
  ASSERT_EQ(received.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(received[i].wr_id, 10 + i);
  }
  EXPECT_TRUE(b.holds(0, 300, 6));
}

TEST_P(Behaviour, BothDirectionsAtOnceKeepTheirData) {
  End a = make_end(), b = make_end();
  connect(a, b);
  constexpr size_t kBytes = 200000;
  a.fill(0, kBytes, 1);
  b.fill(0, kBytes, 2);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(a.post(a.rdma(i, IBV_WR_RDMA_WRITE, 0, kBytes, b.address(500000), b.region.rkey())),
              0);
    ASSERT_EQ(b.post(b.rdma(i, IBV_WR_RDMA_READ, 300000, 100000, a.address(0), a.region.rkey())),
              0);
    ASSERT_EQ(b.post(b.rdma(i, IBV_WR_RDMA_WRITE, 0, kBytes, a.address(500000), a.region.rkey())),
              0);
  }
  for (const ibv_wc& wc : take(a.send_cq, 8)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  const std::vector<ibv_wc> of_b = take(b.send_cq, 16);
  ASSERT_EQ(of_b.size(), 16u);
  for (const ibv_wc& wc : of_b) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b.holds(500000, kBytes, 1));
  EXPECT_TRUE(a.holds(500000, kBytes, 2));
  EXPECT_TRUE(b.holds(300000, 100000, 1));
}

}  // namespace
}  // namespace roce::verbs
