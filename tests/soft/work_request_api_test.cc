// ibv_create_qp_ex and the calls between ibv_wr_start and ibv_wr_complete: each operation with its
// bytes at the peer, and what is refused. Expected errors: ibv_wr_post(3) of rdma-core; the codes
// that it leaves open are listed in src/soft/work_request_api.cc.
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>

#include "rig.h"

namespace roce::soft::test {
namespace {

constexpr uint32_t kQkey = 0x11111111;  // As Rig::to_init sets it.
constexpr uint64_t kEverything =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

QpOptions with_operations(uint64_t operations, uint32_t depth = 64) {
  QpOptions options;
  options.operations = operations;
  options.depth = depth;
  return options;
}

/// A pair whose first queue pair posts by ibv_wr_ calls; its memory holds 0, 1, 2... 250, 0...
struct ExtendedPair : Pair {
  ibv_qp_ex* qp;
  explicit ExtendedPair(const QpOptions& options = with_operations(kEverything))
      : Pair(options), qp(ibv_qp_to_qp_ex(a.qp)) {
    for (size_t i = 0; i < 1 << 16; ++i) a.data[i] = static_cast<uint8_t>(i % 251);
    qp->wr_flags = IBV_SEND_SIGNALED;
  }
  uint64_t remote(size_t offset = 0) const { return reinterpret_cast<uintptr_t>(b.data + offset); }
  uint64_t local(size_t offset = 0) const { return reinterpret_cast<uintptr_t>(a.data + offset); }
  void set_data(size_t offset, uint32_t bytes) {
    ibv_wr_set_sge(qp, a.mr->lkey, local(offset), bytes);
  }
  /// Begins request `id` as a SEND of `bytes` bytes.
  void build_send(uint64_t id, uint32_t bytes = 8) {
    qp->wr_id = id;
    ibv_wr_send(qp);
    set_data(0, bytes);
  }
  bool nothing_completes() {
    ibv_wc wc;
    const auto start = std::chrono::steady_clock::now();
    while (seconds_since(start) < 0.05) {
      if (ibv_poll_cq(a.cq, 1, &wc) != 0 || ibv_poll_cq(b.cq, 1, &wc) != 0) return false;
    }
    return true;
  }
};

TEST(WorkRequests, TheLibraryFindsOnlyQueuePairsMadeForThem) {
  ExtendedPair pair;
  EXPECT_EQ(reinterpret_cast<void*>(pair.qp), static_cast<void*>(pair.a.qp));
  Rig plain;
  EXPECT_EQ(ibv_qp_to_qp_ex(plain.qp), nullptr);
}

TEST(WorkRequests, SendsCarryTheirBytesAndImmediate) {
  ExtendedPair pair;
  for (uint64_t id = 0; id < 2; ++id) ASSERT_EQ(pair.b.receive(id, 10'000 * id, 10'000), 0);
  ibv_wr_start(pair.qp);
  pair.qp->wr_id = 7;
  ibv_wr_send(pair.qp);
  pair.set_data(1, 9000);
  pair.qp->wr_id = 8;
  ibv_wr_send_imm(pair.qp, htobe32(0xCAFE));
  pair.set_data(300, 5);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  for (uint64_t id = 7; id < 9; ++id) {
    const ibv_wc sent = pair.a.wait();
    ASSERT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.wr_id, id);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  }
  ibv_wc got = pair.b.wait();
  EXPECT_EQ(got.byte_len, 9000u);
  EXPECT_EQ(got.wc_flags & IBV_WC_WITH_IMM, 0u);
  for (size_t i = 0; i < 9000; ++i) ASSERT_EQ(pair.b.data[i], (i + 1) % 251) << i;
  got = pair.b.wait();
  EXPECT_EQ(got.byte_len, 5u);
  EXPECT_EQ(got.wc_flags & IBV_WC_WITH_IMM, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(got.imm_data, htobe32(0xCAFE));
  EXPECT_EQ(pair.b.data[10'000], 300 - 251);
}

TEST(WorkRequests, SendWithInvalidateTellsThePeerTheKey) {
  ExtendedPair pair;
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  uint8_t spare[64] = {};
  ibv_mr* mr = reg_mr(pair.b.pd, spare, sizeof spare, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  ibv_wr_start(pair.qp);
  ibv_wr_send_inv(pair.qp, mr->rkey);
  pair.set_data(0, 16);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  const ibv_wc got = pair.b.wait();
  EXPECT_EQ(got.wc_flags & IBV_WC_WITH_INV, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(got.invalidated_rkey, mr->rkey);
  EXPECT_EQ(dereg_mr(mr), 0);
}

TEST(WorkRequests, WritesReachTheirAddress) {
  ExtendedPair pair;
  ASSERT_EQ(pair.b.receive(5, 0, 0), 0);
  ibv_wr_start(pair.qp);
  ibv_wr_rdma_write(pair.qp, pair.b.mr->rkey, pair.remote(100));
  pair.set_data(10, 6000);
  ibv_wr_rdma_write_imm(pair.qp, pair.b.mr->rkey, pair.remote(20'000), htobe32(99));
  pair.set_data(20, 3);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc wc = pair.a.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  }
  const ibv_wc got = pair.b.wait();
  EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got.imm_data, htobe32(99));
  for (size_t i = 0; i < 6000; ++i) ASSERT_EQ(pair.b.data[100 + i], (10 + i) % 251) << i;
  EXPECT_EQ(pair.b.data[99], 0);
  EXPECT_EQ(pair.b.data[6100], 0);
  EXPECT_EQ(pair.b.data[20'002], 22);
}

TEST(WorkRequests, AReadFetches) {
  ExtendedPair pair;
  std::iota(pair.b.data, pair.b.data + 256, uint8_t{0});
  ibv_wr_start(pair.qp);
  ibv_wr_rdma_read(pair.qp, pair.b.mr->rkey, pair.remote(17));
  pair.set_data(40'000, 200);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  const ibv_wc wc = pair.a.wait();
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  for (size_t i = 0; i < 200; ++i) ASSERT_EQ(pair.a.data[40'000 + i], 17 + i);
}

TEST(WorkRequests, AtomicsChangeTheWordAndReturnTheOldOne) {
  ExtendedPair pair;
  auto* word = reinterpret_cast<uint64_t*>(pair.b.data);
  auto* old = reinterpret_cast<uint64_t*>(pair.a.data);
  *word = 1000;
  ibv_wr_start(pair.qp);
  ibv_wr_atomic_fetch_add(pair.qp, pair.b.mr->rkey, pair.remote(), 234);
  pair.set_data(0, 8);
  // 1000 + 234 = 1234 is what the swap expects; the second one finds 55 and changes nothing.
  ibv_wr_atomic_cmp_swp(pair.qp, pair.b.mr->rkey, pair.remote(), 1234, 55);
  pair.set_data(8, 8);
  ibv_wr_atomic_cmp_swp(pair.qp, pair.b.mr->rkey, pair.remote(), 1234, 66);
  pair.set_data(16, 8);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  for (const ibv_wc_opcode opcode : {IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP, IBV_WC_COMP_SWAP}) {
    const ibv_wc wc = pair.a.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, opcode);
  }
  EXPECT_EQ(old[0], 1000u);
  EXPECT_EQ(old[1], 1234u);
  EXPECT_EQ(old[2], 55u);
  EXPECT_EQ(*word, 55u);
}

TEST(WorkRequests, ListsAndInlineBytesAreTakenAtOnce) {
  ExtendedPair pair;
  uint8_t text[] = "abcdef";
  ibv_sge list[] = {pair.a.sge(5, 3), pair.a.sge(200, 2), pair.a.sge(50, 4)};
  ibv_data_buf buffers[] = {{text + 4, 2}, {text, 0}, {text + 1, 3}};
  ibv_wr_start(pair.qp);
  ibv_wr_rdma_write(pair.qp, pair.b.mr->rkey, pair.remote());
  ibv_wr_set_sge_list(pair.qp, 3, list);
  ibv_wr_rdma_write(pair.qp, pair.b.mr->rkey, pair.remote(32));
  ibv_wr_set_inline_data(pair.qp, text, 3);
  ibv_wr_rdma_write(pair.qp, pair.b.mr->rkey, pair.remote(64));
  ibv_wr_set_inline_data_list(pair.qp, 3, buffers);
  // The program may change its list and its bytes before the batch is complete.
  std::memset(text, 'x', sizeof text);
  std::memset(list, 0xFF, sizeof list);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  const uint8_t gathered[] = {5, 6, 7, 200, 201, 50, 51, 52, 53, 0};
  EXPECT_EQ(std::memcmp(pair.b.data, gathered, sizeof gathered), 0);
  EXPECT_EQ(std::memcmp(pair.b.data + 32, "abc\0", 4), 0);
  EXPECT_EQ(std::memcmp(pair.b.data + 64, "efbcd\0", 6), 0);
}

TEST(WorkRequests, DatagramsGoWhereTheirAddressSays) {
  QpOptions options = with_operations(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
  options.type = IBV_QPT_UD;
  Rig a(options), b(options);
  a.make_memory(4096);
  b.make_memory(4096);
  a.connect({});
  b.connect({});
  ibv_ah_attr attr = a.address_vector(b.name());
  ibv_ah* ah = create_ah(a.pd, &attr);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(b.receive(1, 0, 256), 0);
  std::memcpy(a.data, "datagram", 8);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(a.qp);
  ASSERT_NE(qp, nullptr);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(qp);
  ibv_wr_send_imm(qp, htobe32(3));
  ibv_wr_set_ud_addr(qp, ah, b.qp->qp_num, kQkey);
  ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<uintptr_t>(a.data), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
  const ibv_wc got = b.wait();
  EXPECT_EQ(got.byte_len, 40u + 8);
  EXPECT_EQ(got.imm_data, htobe32(3));
  EXPECT_EQ(std::memcmp(b.data + 40, "datagram", 8), 0);
  // Without an address.
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<uintptr_t>(a.data), 8);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  EXPECT_EQ(destroy_ah(ah), 0);
}

TEST(WorkRequests, NothingOfAnAbortedBatchLeaves) {
  ExtendedPair pair;
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  ibv_wr_start(pair.qp);
  for (uint64_t id = 0; id < 3; ++id) pair.build_send(id);
  ibv_wr_abort(pair.qp);
  EXPECT_TRUE(pair.nothing_completes());
  ibv_wr_start(pair.qp);
  pair.build_send(42, 11);
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 42u);
  EXPECT_EQ(pair.b.wait().byte_len, 11u);
}

TEST(WorkRequests, NothingLeavesBeforeComplete) {
  ExtendedPair pair;
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  ibv_wr_start(pair.qp);
  pair.build_send(1);
  pair.build_send(2);
  EXPECT_TRUE(pair.nothing_completes());
  ibv_wr_abort(pair.qp);
}

TEST(WorkRequests, ABatchLargerThanTheQueueIsRefusedAsAWhole) {
  ExtendedPair pair(with_operations(kEverything, 4));
  for (uint64_t id = 0; id < 4; ++id) ASSERT_EQ(pair.b.receive(id, 0, 64), 0);
  ibv_wr_start(pair.qp);
  for (uint64_t id = 0; id < 5; ++id) pair.build_send(id);
  EXPECT_EQ(ibv_wr_complete(pair.qp), ENOMEM);
  EXPECT_TRUE(pair.nothing_completes());
  ibv_wr_start(pair.qp);
  for (uint64_t id = 0; id < 4; ++id) pair.build_send(id);
  EXPECT_EQ(ibv_wr_complete(pair.qp), 0);
  for (uint64_t id = 0; id < 4; ++id) EXPECT_EQ(pair.a.wait().wr_id, id);
}

TEST(WorkRequests, ABatchMayFillALargeQueue) {
  constexpr uint64_t kDepth = 60;
  ExtendedPair pair(with_operations(kEverything, kDepth));
  for (int round = 0; round < 3; ++round) {
    ibv_wr_start(pair.qp);
    for (uint64_t id = 0; id < kDepth; ++id) {
      pair.qp->wr_id = id;
      uint64_t word = id * 1000 + static_cast<uint64_t>(round);
      ibv_wr_rdma_write(pair.qp, pair.b.mr->rkey, pair.remote(id * 8));
      ibv_wr_set_inline_data(pair.qp, &word, sizeof word);
    }
    ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
    for (uint64_t id = 0; id < kDepth; ++id) ASSERT_EQ(pair.a.wait().wr_id, id);
    for (uint64_t id = 0; id < kDepth; ++id) {
      uint64_t word = 0;
      std::memcpy(&word, pair.b.data + id * 8, sizeof word);
      ASSERT_EQ(word, id * 1000 + static_cast<uint64_t>(round));
    }
  }
}

TEST(WorkRequests, MalformedRequestsMakeTheBatchVoid) {
  ExtendedPair pair(with_operations(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                    IBV_QP_EX_WITH_RDMA_READ));
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  const uint32_t rkey = pair.b.mr->rkey;
  ibv_qp_ex* qp = pair.qp;
  uint8_t bytes[65] = {};
  ibv_sge list[5] = {};
  // One wrong request between two right ones, none of which may leave.
  const auto refused = [&](int error, const char* what, const std::function<void()>& build) {
    ibv_wr_start(qp);
    pair.build_send(1);
    build();
    pair.build_send(2);
    EXPECT_EQ(ibv_wr_complete(qp), error) << what;
    EXPECT_TRUE(pair.nothing_completes()) << what;
  };
  const auto send = [&] { ibv_wr_send(qp); };
  const auto read = [&] { ibv_wr_rdma_read(qp, rkey, pair.remote()); };
  const auto add = [&] { ibv_wr_atomic_fetch_add(qp, rkey, pair.remote(), 1); };
  refused(EINVAL, "not asked for", [&] { ibv_wr_rdma_write(qp, rkey, 0); });
  refused(EOPNOTSUPP, "TSO", [&] { ibv_wr_send_tso(qp, bytes, 4, 100); });
  refused(EOPNOTSUPP, "local invalidate", [&] { ibv_wr_local_inv(qp, rkey); });
  refused(EOPNOTSUPP, "bind", [&] { ibv_wr_bind_mw(qp, nullptr, 0, nullptr); });
  refused(EOPNOTSUPP, "XRC", [&] { ibv_wr_set_xrc_srqn(qp, 1); });
  refused(EINVAL, "65 inline bytes of 64", [&] { send(), ibv_wr_set_inline_data(qp, bytes, 65); });
  refused(EINVAL, "5 elements of 4", [&] { send(), ibv_wr_set_sge_list(qp, 5, list); });
  refused(EINVAL, "inline READ", [&] { read(), ibv_wr_set_inline_data(qp, bytes, 8); });
  refused(EINVAL, "atomic of 4 bytes", [&] { add(), pair.set_data(0, 4); });
  refused(EINVAL, "data twice", [&] { send(), pair.set_data(0, 4), pair.set_data(4, 4); });
  refused(EINVAL, "address, connected", [&] { send(), ibv_wr_set_ud_addr(qp, nullptr, 0, 0); });
}

TEST(WorkRequests, BothWaysOfPostingTakeTurns) {
  ExtendedPair pair;
  for (uint64_t id = 0; id < 6; ++id) ASSERT_EQ(pair.b.receive(id, 100 * id, 100), 0);
  for (uint64_t id = 0; id < 6; id += 2) {
    ASSERT_EQ(pair.a.send(id, IBV_WR_SEND, 0, static_cast<uint32_t>(10 + id)), 0);
    ibv_wr_start(pair.qp);
    pair.build_send(id + 1, static_cast<uint32_t>(11 + id));
    ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  }
  for (uint32_t id = 0; id < 6; ++id) {
    EXPECT_EQ(pair.a.wait().wr_id, id);
    EXPECT_EQ(pair.b.wait().byte_len, 10 + id);
  }
}

TEST(WorkRequests, PostingInsideTheCriticalRegionIsRefusedAtOnce) {
  ExtendedPair pair;
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  ibv_wr_start(pair.qp);
  pair.build_send(3, 9);
  EXPECT_EQ(pair.a.send(2, IBV_WR_SEND, 0, 8), EDEADLK);
  // The batch is as it was.
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 3u);
  EXPECT_EQ(pair.b.wait().byte_len, 9u);
  ibv_wr_start(pair.qp);
  ibv_wr_start(pair.qp);
  EXPECT_EQ(ibv_wr_complete(pair.qp), EDEADLK);
  EXPECT_EQ(ibv_wr_complete(pair.qp), EINVAL);  // Outside.
}

TEST(WorkRequests, AnotherThreadWaitsForTheEndOfTheCriticalRegion) {
  ExtendedPair pair;
  for (uint64_t id = 0; id < 2; ++id) ASSERT_EQ(pair.b.receive(id, 0, 64), 0);
  ibv_wr_start(pair.qp);
  pair.build_send(1, 21);
  int posted = -1;
  std::thread other([&] { posted = pair.a.send(2, IBV_WR_SEND, 0, 22); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_EQ(ibv_wr_complete(pair.qp), 0);
  other.join();
  EXPECT_EQ(posted, 0);
  EXPECT_EQ(pair.b.wait().byte_len, 21u);
  EXPECT_EQ(pair.b.wait().byte_len, 22u);
}

TEST(WorkRequests, CreationRefusesWhatTheDeviceOrTheTypeLacks) {
  Rig rig;
  const auto create = [&](ibv_qp_type type, uint64_t operations, uint32_t more_mask = 0) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = rig.cq;
    init.qp_type = type;
    init.cap = {4, 4, 1, 1, 0};
    init.pd = rig.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | more_mask;
    init.send_ops_flags = operations;
    errno = 0;
    ibv_qp* qp = ibv_create_qp_ex(rig.context, &init);
    const int error = errno;
    if (qp == nullptr) return error;
    EXPECT_EQ(destroy_qp(qp), 0);
    return 0;
  };
  EXPECT_EQ(create(IBV_QPT_RC, kEverything), 0);
  EXPECT_EQ(create(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, IBV_QP_EX_WITH_LOCAL_INV), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_UD, IBV_QP_EX_WITH_SEND), 0);
  EXPECT_EQ(create(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, kEverything, IBV_QP_INIT_ATTR_RX_HASH), EOPNOTSUPP);
}

}  // namespace
}  // namespace roce::soft::test
