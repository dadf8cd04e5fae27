// What reliable connections do when something is wrong: error completions, ERR, flush, retries.
#include <cstring>
#include <functional>
#include <thread>

#include "behaviour.h"

namespace roce::verbs {
namespace {

using std::chrono::milliseconds;

// A request that the responder refuses: completes with `expected`, the queue pair goes to ERR, what
// was posted behind it is flushed in order, and the memory stays.
class RefusedRequest {
 public:
  RefusedRequest(End& a, End& b) : a_(a), b_(b) {}

  void run(const ibv_send_wr& request, ibv_wc_status expected) {
    b_.fill(0, b_.memory.size(), 321);
    ASSERT_EQ(a_.post(request), 0);
    for (uint64_t id : {901u, 902u, 903u}) {
      // Unsignaled ones too: errors always complete.
      ibv_send_wr later = a_.request(id, IBV_WR_SEND, 0, 4);
      if (id == 902) later.send_flags = 0;
      const int error = a_.post(later);
      // The first may have failed already; then the queue pair still takes requests, or says so.
      ASSERT_EQ(error, 0);
    }
    const std::vector<ibv_wc> got = take(a_.send_cq, 4);
    ASSERT_EQ(got.size(), 4u);
    EXPECT_EQ(got[0].status, expected) << a_.qp.table().wc_status_str(got[0].status);
    EXPECT_EQ(got[0].wr_id, request.wr_id);
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(got[i].status, IBV_WC_WR_FLUSH_ERR);
      EXPECT_EQ(got[i].wr_id, 900 + i);
    }
    EXPECT_EQ(a_.qp.state().value(), IBV_QPS_ERR);
    EXPECT_TRUE(b_.holds(0, b_.memory.size(), 321));
  }

 private:
  End& a_;
  End& b_;
};

TEST_P(Behaviour, WriteWithAnUnknownKeyIsRefused) {
  End a = make_end(), b = make_end();
  connect(a, b);
  RefusedRequest(a, b).run(
      a.rdma(5, IBV_WR_RDMA_WRITE, 0, 4000, b.address(0), b.region.rkey() ^ 0x5A5A00),
      IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, WriteBeyondTheRegionIsRefused) {
  End a = make_end(), b = make_end();
  connect(a, b);
  RefusedRequest(a, b).run(
      a.rdma(5, IBV_WR_RDMA_WRITE, 0, 101, b.address(b.memory.size() - 100), b.region.rkey()),
      IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, WriteThatWrapsTheAddressSpaceIsRefused) {
  End a = make_end(), b = make_end();
  connect(a, b);
  RefusedRequest(a, b).run(a.rdma(5, IBV_WR_RDMA_WRITE, 0, 100, UINT64_MAX - 50, b.region.rkey()),
                           IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, ReadBeforeTheRegionIsRefused) {
  End a = make_end(), b = make_end();
  connect(a, b);
  RefusedRequest(a, b).run(a.rdma(5, IBV_WR_RDMA_READ, 0, 100, b.address(0) - 1, b.region.rkey()),
                           IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, WriteNeedsRemoteWriteOfTheRegion) {
  EndOptions read_only;
  read_only.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  End a = make_end(), b = make_end(read_only);
  connect(a, b);
  b.fill(0, 64, 7);
  ASSERT_EQ(a.post(a.rdma(4, IBV_WR_RDMA_READ, 0, 64, b.address(0), b.region.rkey())), 0);
  ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  RefusedRequest(a, b).run(a.rdma(5, IBV_WR_RDMA_WRITE, 0, 64, b.address(0), b.region.rkey()),
                           IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, ReadNeedsRemoteReadOfTheRegion) {
  EndOptions write_only;
  write_only.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  End a = make_end(), b = make_end(write_only);
  connect(a, b);
  RefusedRequest(a, b).run(a.rdma(5, IBV_WR_RDMA_READ, 0, 64, b.address(0), b.region.rkey()),
                           IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, KeyOfAnotherProtectionDomainIsRefused) {
  End a = make_end(), b = make_end();
  connect(a, b);
  auto other = ProtectionDomain::create(context_);
  ASSERT_TRUE(other);
  auto region = MemoryRegion::create(*other, b.memory.data(), b.memory.size(), kAllAccess);
  ASSERT_TRUE(region);
  RefusedRequest(a, b).run(a.rdma(5, IBV_WR_RDMA_WRITE, 0, 64, b.address(0), region->rkey()),
                           IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, KeyOfADeregisteredRegionIsRefused) {
  End a = make_end(), b = make_end();
  connect(a, b);
  const uint32_t rkey = b.region.rkey();
  ASSERT_TRUE(b.region.destroy());
  RefusedRequest(a, b).run(a.rdma(5, IBV_WR_RDMA_WRITE, 0, 64, b.address(0), rkey),
                           IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Behaviour, WriteNeedsTheQueuePairsPermission) {
  End a = make_end(), b = make_end();
  connect(a, b, {}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  b.fill(0, b.memory.size(), 321);
  ASSERT_EQ(a.post(a.rdma(5, IBV_WR_RDMA_WRITE, 0, 64, b.address(0), b.region.rkey())), 0);
  // The specification says invalid request; NICs say either.
  const ibv_wc_status status = take_one(a.send_cq).status;
  EXPECT_TRUE(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR) << status;
  EXPECT_TRUE(b.holds(0, b.memory.size(), 321));
}

TEST_P(Behaviour, MisalignedAtomicIsRefused) {
  if (context_.query_device().value().atomic_cap == IBV_ATOMIC_NONE) {
    GTEST_SKIP() << candidate_.device << " has no atomic operations";
  }
  End a = make_end(), b = make_end();
  connect(a, b);
  RefusedRequest(a, b).run(
      a.atomic(5, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, b.address(0) + 4, b.region.rkey(), 1),
      IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Behaviour, SendWithABadLocalKeyFailsLocally) {
  End a = make_end(), b = make_end();
  connect(a, b);
  ASSERT_EQ(b.post_recv(1, 0, 4096), 0);
  ibv_sge sge = a.piece(0, 4000);
  sge.lkey ^= 0x5A5A00;
  ibv_send_wr request = a.request(6, IBV_WR_SEND, 0, 1);
  request.sg_list = &sge;
  ASSERT_EQ(a.post(request), 0);
  EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_TRUE(stays_empty(b.recv_cq, milliseconds(5)));
  EXPECT_EQ(a.qp.state().value(), IBV_QPS_ERR);
}

TEST_P(Behaviour, SendLongerThanTheReceiveBufferFailsOnBothSides) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (size_t bytes : {size_t{101}}) {
    b.fill(0, 1000, 321);
    ASSERT_EQ(b.post_recv(3, 0, 100), 0);
    ASSERT_EQ(a.post(a.request(6, IBV_WR_SEND, 0, bytes)), 0);
    EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
    const ibv_wc received = take_one(b.recv_cq);
    EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(received.wr_id, 3u);
    EXPECT_EQ(0, std::memcmp(b.at(100), End::pattern(1000, 321).data() + 100, 900));
  }
}

TEST_P(Behaviour, ErrorStateFlushesReceivesInOrder) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (uint64_t i = 0; i < 30; ++i) ASSERT_EQ(b.post_recv(i, 0, 64), 0);
  ASSERT_TRUE(b.qp.to_error());
  // Posted in ERR: flushed too.
  for (uint64_t i = 30; i < 33; ++i) ASSERT_EQ(b.post_recv(i, 0, 64), 0);
  const std::vector<ibv_wc> got = take(b.recv_cq, 33);
  ASSERT_EQ(got.size(), 33u);
  for (uint64_t i = 0; i < 33; ++i) {
    EXPECT_EQ(got[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(got[i].wr_id, i);
    EXPECT_EQ(got[i].qp_num, b.qp.qpn());
  }
}

TEST_P(Behaviour, MissingReceiveWithoutRetriesIsAnRnrError) {
  End a = make_end(), b = make_end();
  RcPath path;
  path.rnr_retry = 0;
  connect(a, b, path);
  ASSERT_EQ(a.post(a.request(6, IBV_WR_SEND, 0, 100)), 0);
  const ibv_wc wc = take_one(a.send_cq);
  EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 6u);
  EXPECT_EQ(a.qp.state().value(), IBV_QPS_ERR);
}

TEST_P(Behaviour, MissingReceiveIsWaitedForWithEndlessRetries) {
  End a = make_end(), b = make_end();
  RcPath path;
  path.rnr_retry = 7;
  path.min_rnr_timer = 12;
  connect(a, b, path);
  a.fill(0, 5000, 3);
  ASSERT_EQ(a.post(a.request(6, IBV_WR_SEND, 0, 5000)), 0);
  EXPECT_TRUE(stays_empty(a.send_cq, milliseconds(50)));
  ASSERT_EQ(b.post_recv(9, 0, 5000), 0);
  EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(take_one(b.recv_cq).wr_id, 9u);
  EXPECT_TRUE(b.holds(0, 5000, 3));
}

TEST_P(Behaviour, NobodyThereEndsWithRetryExceeded) {
  End a = make_end();
  uint32_t nobody = 0;
  {
    End gone = make_end();
    nobody = gone.qp.qpn();
  }
  RcPath path;
  path.timeout = 10;  // 4 ms
  path.retry_count = 2;
  connect(a, nobody, 1, 2, path);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(a.post(a.rdma(4, IBV_WR_RDMA_WRITE, 0, 100, 0, 0)), 0);
  ASSERT_EQ(a.post(a.request(5, IBV_WR_SEND, 0, 100)), 0);
  const std::vector<ibv_wc> got = take(a.send_cq, 2);
  const auto waited = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(got[0].wr_id, 4u);
  EXPECT_EQ(got[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(got[1].wr_id, 5u);
  // No sooner than the timeouts of all tries but the last.
  EXPECT_GT(waited, milliseconds(8));
}

TEST_P(Behaviour, PeerThatGoesAwayIsNoticed) {
  End a = make_end(), b = make_end();
  RcPath path;
  path.timeout = 10;
  path.retry_count = 1;
  connect(a, b, path);
  ASSERT_EQ(b.post_recv(1, 0, 64), 0);
  ASSERT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 64)), 0);
  ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  ASSERT_TRUE(b.qp.to_error());
  ASSERT_EQ(a.post(a.request(2, IBV_WR_SEND, 0, 64)), 0);
  const ibv_wc wc = take_one(a.send_cq);
  // A queue pair in ERR answers nothing, so the requester runs out of retries.
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
}

TEST_P(Behaviour, QueuePairRecoversThroughReset) {
  End a = make_end(), b = make_end();
  connect(a, b);
  ASSERT_EQ(a.post(a.rdma(5, IBV_WR_RDMA_WRITE, 0, 64, b.address(0), b.region.rkey() ^ 0x5A5A00)),
            0);
  ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(a.qp.to_reset());
  ASSERT_TRUE(b.qp.to_reset());
  connect(a, b);
  a.fill(0, 64, 2);
  ASSERT_EQ(a.post(a.rdma(6, IBV_WR_RDMA_WRITE, 0, 64, b.address(0), b.region.rkey())), 0);
  ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b.holds(0, 64, 2));
}

TEST_P(Behaviour, TooManyRequestsAreRefusedByPost) {
  EndOptions options;
  options.depth = 8;
  End a = make_end(options), b = make_end();
  RcPath path;
  path.rnr_retry = 7;
  connect(a, b, path);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(candidate_.table->query_qp(a.qp.get(), &attributes, IBV_QP_CAP, &init), 0);
  uint32_t posted = 0;
  while (posted <= init.cap.max_send_wr && a.post(a.request(posted, IBV_WR_SEND, 0, 8)) == 0) {
    ++posted;
  }
  EXPECT_GE(posted, 8u);
  EXPECT_LE(posted, init.cap.max_send_wr);
  // What was accepted still runs.
  for (uint32_t i = 0; i < std::min(posted, 100u); ++i) ASSERT_EQ(b.post_recv(i, 0, 8), 0);
  const std::vector<ibv_wc> got = take(a.send_cq, std::min<size_t>(posted, 8));
  ASSERT_EQ(got.size(), std::min<size_t>(posted, 8));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(got[i].wr_id, i);
  }
}

}  // namespace
}  // namespace roce::verbs
