// What the states of a queue pair mean for its requests: draining, the events of transitions,
// flushing.
#include <optional>

#include "rig.h"

namespace roce::soft::test {
namespace {

/// Makes progress for a while in which nothing is expected to happen.
void let_pass(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (seconds_since(start) < seconds) progress();
}

int to_state(const Rig& rig, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return modify_qp(rig.qp, &attr, IBV_QP_STATE);
}

int to_drained(const Rig& rig, bool notify) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = notify ? 1 : 0;
  return modify_qp(rig.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

// ---- SQD ----

/// A SEND is outstanding until the peer, which has no receive request, gets one.
void leave_a_send_unanswered(Pair& pair) {
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 8), 0);
  let_pass(0.01);
}

TEST(SqDrained, TheEventComesWhenOutstandingSendsAreDone) {
  Pair pair;
  leave_a_send_unanswered(pair);
  ASSERT_EQ(to_drained(pair.a, true), 0);
  EXPECT_EQ(pair.a.next_event(0.05), std::nullopt);
  EXPECT_EQ(pair.a.query().qp_state, IBV_QPS_SQD);
  EXPECT_EQ(pair.a.query().sq_draining, 1);
  ASSERT_EQ(pair.b.receive(2, 0, 8), 0);
  EXPECT_EQ(pair.a.next_event(10), IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(pair.a.query().qp_state, IBV_QPS_SQD);
  EXPECT_EQ(pair.a.query().sq_draining, 0);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(pair.a.cq, 1, &wc), 1) << "drained before the completion was there";
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().wr_id, 2u);
  EXPECT_EQ(pair.a.next_event(0.05), std::nullopt);
}

TEST(SqDrained, AnIdleQueueIsDrainedAtOnce) {
  Pair pair;
  ASSERT_EQ(to_drained(pair.a, true), 0);
  EXPECT_EQ(pair.a.query().sq_draining, 0);
  EXPECT_EQ(pair.a.next_event(10), IBV_EVENT_SQ_DRAINED);
}

TEST(SqDrained, WhoDoesNotAskGetsNoEvent) {
  for (const bool with_attribute : {false, true}) {
    Pair pair;
    leave_a_send_unanswered(pair);
    ASSERT_EQ(with_attribute ? to_drained(pair.a, false) : to_state(pair.a, IBV_QPS_SQD), 0);
    EXPECT_EQ(pair.a.query().sq_draining, 1);
    ASSERT_EQ(pair.b.receive(2, 0, 8), 0);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.query().sq_draining, 0);
    EXPECT_EQ(pair.a.next_event(0.05), std::nullopt);
  }
}

TEST(SqDrained, RequestsPostedMeanwhileWaitForRts) {
  Pair pair;
  leave_a_send_unanswered(pair);
  ASSERT_EQ(to_drained(pair.a, true), 0);
  pair.a.data[100] = 1;
  ASSERT_EQ(pair.a.write(pair.b, 11, 100, 1), 0);
  ASSERT_EQ(pair.a.send(12, IBV_WR_SEND, 0, 8), 0);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(pair.b.receive(i, 64, 8), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 1u);
  EXPECT_EQ(pair.a.next_event(10), IBV_EVENT_SQ_DRAINED) << "those posted later do not count";
  EXPECT_EQ(pair.b.wait().wr_id, 0u);
  EXPECT_EQ(pair.b.wait(0.05).status, IBV_WC_GENERAL_ERR);
  EXPECT_EQ(pair.b.data[0], 0);
  ASSERT_EQ(to_state(pair.a, IBV_QPS_RTS), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 11u);
  EXPECT_EQ(pair.a.wait().wr_id, 12u);
  EXPECT_EQ(pair.b.wait().wr_id, 1u);
  EXPECT_EQ(pair.b.data[0], 1);
}

TEST(SqDrained, TheReceivingHalfGoesOn) {
  Pair pair;
  ASSERT_EQ(to_drained(pair.b, false), 0);
  ASSERT_EQ(pair.b.receive(2, 0, 8), 0);
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().wr_id, 2u);
}

TEST(SqDrained, AnErrorEndsTheDraining) {
  QpOptions options;
  options.rnr_retry = 5;
  options.min_rnr_timer = 20;  // 10.24 ms
  Pair pair(options);
  leave_a_send_unanswered(pair);
  ASSERT_EQ(to_drained(pair.a, true), 0);
  EXPECT_EQ(pair.a.query().sq_draining, 1);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.query().qp_state, IBV_QPS_ERR);
  EXPECT_EQ(pair.a.query().sq_draining, 0);
  EXPECT_EQ(pair.a.next_event(0.05), std::nullopt);
}

// ---- events of transitions ----

TEST(QpEvents, TheFirstPacketInRtrTellsThatThePeerIsThere) {
  Rig a, b;
  a.make_memory(4096);
  b.make_memory(4096);
  a.connect(b.name());
  ASSERT_EQ(b.to_init(), 0);
  ASSERT_EQ(b.to_rtr(a.name()), 0);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(b.receive(i, 0, 8), 0);
  EXPECT_EQ(b.next_event(0.05), std::nullopt);
  ASSERT_EQ(a.send(1, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(b.next_event(10), IBV_EVENT_COMM_EST);
  EXPECT_EQ(b.wait().wr_id, 0u);
  EXPECT_EQ(b.query().qp_state, IBV_QPS_RTR) << "the program's to change";
  ASSERT_EQ(a.send(2, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(b.wait().wr_id, 1u);
  EXPECT_EQ(b.next_event(0.05), std::nullopt) << "once";
  EXPECT_EQ(a.next_event(0), std::nullopt) << "was in RTS before any packet";
}

/// Two rigs, of which `b` receives from a shared queue with requests 0 to 3 of 64 bytes.
struct SharedPair {
  Rig a, b;
  ibv_srq* srq = nullptr;
  SharedPair() {
    a.make_memory(4096);
    b.make_memory(4096);
    ibv_srq_init_attr init{};
    init.attr = {16, 1, 0};
    srq = create_srq(b.pd, &init);
    EXPECT_EQ(destroy_qp(b.qp), 0);
    ibv_qp_init_attr qp_init{};
    qp_init.send_cq = qp_init.recv_cq = b.cq;
    qp_init.srq = srq;
    qp_init.qp_type = IBV_QPT_RC;
    qp_init.cap = {8, 0, 1, 0, 0};
    b.qp = create_qp(b.pd, &qp_init);
    a.connect(b.name());
    b.connect(a.name());
    for (uint64_t i = 0; i < 4; ++i) {
      ibv_sge element = b.sge(i * 64, 64);
      ibv_recv_wr wr{i, nullptr, &element, 1}, *bad = nullptr;
      EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    }
  }
  ~SharedPair() {
    EXPECT_EQ(destroy_qp(b.qp), 0);
    b.qp = nullptr;
    EXPECT_EQ(destroy_srq(srq), 0);
  }
};

TEST(QpEvents, TheEndOfAQueuePairWithASharedReceiveQueueIsTold) {
  SharedPair pair;
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(pair.b.wait().wr_id, 0u);
  EXPECT_EQ(pair.b.next_event(0), std::nullopt);
  ASSERT_EQ(to_state(pair.b, IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.b.next_event(10), IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(pair.b.wait(0.05).status, IBV_WC_GENERAL_ERR) << "what nobody took is not flushed";
  ASSERT_EQ(to_state(pair.b, IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.b.next_event(0.05), std::nullopt) << "once";
}

TEST(QpEvents, TheEndByAnErrorComesBehindTheLastCompletion) {
  SharedPair pair;
  ASSERT_EQ(pair.a.send(1, IBV_WR_SEND, 0, 65), 0);  // Longer than the receive request.
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
  std::optional<ibv_event_type> event;
  do {
    event = pair.b.next_event(10);
    ASSERT_NE(event, std::nullopt);
  } while (*event != IBV_EVENT_QP_LAST_WQE_REACHED);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(pair.b.cq, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 0u);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(ibv_poll_cq(pair.b.cq, 1, &wc), 0);
}

// ---- flushing ----

/// All sends [1, sends) and receives [100, 100 + receives), each kind in its order, flushed.
void expect_flushed(Rig& rig, uint64_t sends, uint64_t receives) {
  uint64_t next_send = 1, next_receive = 100;
  while (next_send != sends || next_receive != 100 + receives) {
    const ibv_wc wc = rig.wait();
    ASSERT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << next_send << " " << next_receive;
    ASSERT_EQ(wc.wr_id, wc.wr_id < 100 ? next_send++ : next_receive++);
  }
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(rig.cq, 1, &wc), 0);
}

TEST(Flush, AfterAnErrorAllRequestsEndInTheOrderOfPosting) {
  Pair pair;
  for (Rig* rig : {&pair.a, &pair.b}) {
    for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(rig->receive(100 + i, 0, 64), 0);
  }
  pair.b.mr->rkey ^= 1;
  ASSERT_EQ(pair.a.write(pair.b, 0, 0, 8), 0);
  pair.b.mr->rkey ^= 1;
  for (uint64_t i = 1; i < 10; ++i) {
    if (i % 3 == 0) {
      ASSERT_EQ(pair.a.read(pair.b, i, 0, 8), 0);
    } else {
      ASSERT_EQ(pair.a.write(pair.b, i, 0, 8), 0);
    }
  }
  const ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.wr_id, 0u);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  for (uint64_t i = 10; i < 14; ++i) ASSERT_EQ(pair.a.send(i, IBV_WR_SEND, 0, 8), 0);
  for (uint64_t i = 10; i < 14; ++i) ASSERT_EQ(pair.a.receive(100 + i, 0, 8), 0);
  expect_flushed(pair.a, 14, 14);
  expect_flushed(pair.b, 1, 10);
}

TEST(Flush, TheProgramsOwnErrStateEndsUnsignaledRequestsToo) {
  Pair pair;
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(pair.a.receive(100 + i, 0, 64), 0);
  for (uint64_t i = 1; i < 9; ++i) {
    ibv_sge element = pair.a.sge(0, 8);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = i;
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    if (i % 2 == 0) wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  }
  let_pass(0.01);  // The peer has no receive request.
  ASSERT_EQ(to_state(pair.a, IBV_QPS_ERR), 0);
  expect_flushed(pair.a, 9, 4);
}

}  // namespace
}  // namespace roce::soft::test
