// The state machine of a queue pair as ibv_modify_qp shows it. The expectations are written down
// from the table of the InfiniBand specification (volume 1, 11.2.5.2) as the ibv_modify_qp manual
// page gives it, not taken from the code.
#include "rig.h"

namespace roce::soft::test {
namespace {

constexpr int kInitMask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask =
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

ibv_qp_attr good_attributes(Rig& rig) {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = rig.qp->qp_num;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
  attr.ah_attr = rig.address_vector(rig.name());
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.path_mig_state = IBV_MIG_MIGRATED;
  return attr;
}

int move(Rig& rig, ibv_qp_state to, int mask) {
  ibv_qp_attr attr = good_attributes(rig);
  attr.qp_state = to;
  return modify_qp(rig.qp, &attr, IBV_QP_STATE | mask);
}

/// Brings a fresh queue pair into `state`.
void reach(Rig& rig, ibv_qp_state state) {
  ASSERT_EQ(move(rig, IBV_QPS_RESET, 0), 0);
  if (state == IBV_QPS_RESET) return;
  if (state == IBV_QPS_ERR) {
    ASSERT_EQ(move(rig, IBV_QPS_ERR, 0), 0);
    return;
  }
  ASSERT_EQ(move(rig, IBV_QPS_INIT, kInitMask), 0);
  if (state == IBV_QPS_INIT) return;
  ASSERT_EQ(move(rig, IBV_QPS_RTR, kRtrMask), 0);
  if (state == IBV_QPS_RTR) return;
  ASSERT_EQ(move(rig, IBV_QPS_RTS, kRtsMask), 0);
  if (state == IBV_QPS_RTS) return;
  ASSERT_EQ(move(rig, IBV_QPS_SQD, 0), 0);
}

ibv_qp_state state_of(Rig& rig) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(query_qp(rig.qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

struct Edge {
  ibv_qp_state from, to;
  int required;
};
constexpr Edge kEdges[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask},
    {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0},
};

TEST(QpTransitions, ExactlyTheEdgesOfTheTableExist) {
  Rig rig;
  const ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                 IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
  for (const ibv_qp_state from : states) {
    for (const ibv_qp_state to : states) {
      ASSERT_NO_FATAL_FAILURE(reach(rig, from));
      const Edge* edge = nullptr;
      for (const Edge& candidate : kEdges) {
        if (candidate.from == from && candidate.to == to) edge = &candidate;
      }
      const bool always = to == IBV_QPS_RESET || to == IBV_QPS_ERR;
      const int result = move(rig, to, edge != nullptr ? edge->required : 0);
      EXPECT_EQ(result, edge != nullptr || always ? 0 : EINVAL) << from << " -> " << to;
      EXPECT_EQ(state_of(rig), result == 0 ? to : from);
    }
  }
}

TEST(QpTransitions, EveryRequiredAttributeIsRequired) {
  Rig rig;
  for (const Edge& edge : kEdges) {
    for (int bit = 1; bit <= edge.required; bit <<= 1) {
      if ((edge.required & bit) == 0) continue;
      ASSERT_NO_FATAL_FAILURE(reach(rig, edge.from));
      EXPECT_EQ(move(rig, edge.to, edge.required & ~bit), EINVAL)
          << edge.from << " -> " << edge.to << " without " << bit;
    }
  }
}

TEST(QpTransitions, AttributesOfOtherTransitionsAreRefused) {
  Rig rig;
  ASSERT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_RESET));
  EXPECT_EQ(move(rig, IBV_QPS_INIT, kInitMask | IBV_QP_QKEY), EINVAL);
  EXPECT_EQ(move(rig, IBV_QPS_INIT, kInitMask | IBV_QP_SQ_PSN), EINVAL);
  ASSERT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_RTS));
  EXPECT_EQ(move(rig, IBV_QPS_RTS, IBV_QP_PATH_MTU), EINVAL);
  EXPECT_EQ(move(rig, IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER), 0);
}

TEST(QpTransitions, ValuesOutOfRangeAreRefused) {
  Rig rig;
  const auto try_rtr = [&](auto change) {
    EXPECT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_INIT));
    ibv_qp_attr attr = good_attributes(rig);
    attr.qp_state = IBV_QPS_RTR;
    change(attr);
    return modify_qp(rig.qp, &attr, IBV_QP_STATE | kRtrMask);
  };
  EXPECT_EQ(try_rtr([](ibv_qp_attr&) {}), 0);
  EXPECT_EQ(try_rtr([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }), EINVAL);
  EXPECT_EQ(try_rtr([](ibv_qp_attr& a) { a.dest_qp_num = 1 << 24; }), EINVAL);
  EXPECT_EQ(try_rtr([](ibv_qp_attr& a) { a.min_rnr_timer = 32; }), EINVAL);
  EXPECT_EQ(try_rtr([](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }), EINVAL);
  EXPECT_EQ(try_rtr([](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 31; }), EINVAL);
  EXPECT_EQ(try_rtr([](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }), EINVAL);
}

TEST(QpTransitions, WrongCurrentStateIsRefused) {
  Rig rig;
  ASSERT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_RTR));
  ibv_qp_attr attr = good_attributes(rig);
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(modify_qp(rig.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE | kRtsMask), EINVAL);
  attr.cur_qp_state = IBV_QPS_RTR;
  EXPECT_EQ(modify_qp(rig.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE | kRtsMask), 0);
}

TEST(QpTransitions, DatagramQueuePairsHaveTheirOwnRow) {
  QpOptions options;
  options.type = IBV_QPT_UD;
  Rig rig(options);
  constexpr int kUdInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  EXPECT_EQ(move(rig, IBV_QPS_INIT, kInitMask), EINVAL);
  EXPECT_EQ(move(rig, IBV_QPS_INIT, kUdInit), 0);
  EXPECT_EQ(move(rig, IBV_QPS_RTR, IBV_QP_AV), EINVAL);
  EXPECT_EQ(move(rig, IBV_QPS_RTR, 0), 0);
  EXPECT_EQ(move(rig, IBV_QPS_RTS, 0), EINVAL);
  EXPECT_EQ(move(rig, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
}

TEST(QpTransitions, PostingFollowsTheState) {
  Rig rig;
  rig.make_memory(4096);
  EXPECT_EQ(rig.receive(1, 0, 8), EINVAL);
  EXPECT_EQ(rig.send(1, IBV_WR_SEND, 0, 8), EINVAL);
  ASSERT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_INIT));
  EXPECT_EQ(rig.receive(1, 0, 8), 0);
  EXPECT_EQ(rig.send(1, IBV_WR_SEND, 0, 8), EINVAL);
  ASSERT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_RTR));
  EXPECT_EQ(rig.send(1, IBV_WR_SEND, 0, 8), EINVAL);
  ASSERT_NO_FATAL_FAILURE(reach(rig, IBV_QPS_ERR));
  EXPECT_EQ(rig.send(21, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(rig.receive(22, 0, 8), 0);
  const ibv_wc first = rig.wait(), second = rig.wait();
  EXPECT_EQ(first.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(second.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(first.wr_id + second.wr_id, 43u);
}

}  // namespace
}  // namespace roce::soft::test
