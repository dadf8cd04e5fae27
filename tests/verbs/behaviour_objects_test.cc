// Opening, querying, memory regions, completion queues, states of queue pairs.
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "behaviour.h"

namespace roce::verbs {
namespace {

TEST_P(Behaviour, OpenDeviceHasThePropertiesOfARocePort) {
  Result<ibv_device_attr> device = context_.query_device();
  ASSERT_TRUE(device) << device.status().text();
  EXPECT_GE(device->phys_port_cnt, candidate_.port);
  EXPECT_GE(device->max_qp_wr, 16);
  EXPECT_GE(device->max_sge, 2);
  EXPECT_GE(device->max_cqe, 16);
  Result<ibv_port_attr> port = context_.query_port(candidate_.port);
  ASSERT_TRUE(port) << port.status().text();
  EXPECT_EQ(port->state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port->link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_GE(port->active_mtu, IBV_MTU_256);
  EXPECT_LE(port->active_mtu, port->max_mtu);
  EXPECT_GT(port->gid_tbl_len, 0);
  EXPECT_GT(port->max_msg_sz, 1u << 20);
  ibv_device_attr_ex extended{};
  EXPECT_EQ(candidate_.table->query_device_ex(context_.get(), nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp_wr, device->max_qp_wr);
  EXPECT_EQ(candidate_.table->name == std::string("soft"), candidate_.table->is_soft);
}

TEST_P(Behaviour, PortsBeyondTheLastAreRefused) {
  EXPECT_FALSE(context_.query_port(0).is_ok());
  EXPECT_FALSE(context_.query_port(200).is_ok());
}

TEST_P(Behaviour, GidTableAgreesWithSingleQueries) {
  for (const Gid& gid : candidate_.gids) {
    ibv_gid single{};
    ASSERT_EQ(candidate_.table->query_gid(context_.get(), candidate_.port,
                                          static_cast<int>(gid.index), &single),
              0);
    EXPECT_EQ(0, std::memcmp(single.raw, gid.bytes.data(), 16)) << gid_text(gid);
  }
}

TEST_P(Behaviour, DefaultPartitionKeyIsThere) {
  uint16_t pkey = 0;
  ASSERT_EQ(candidate_.table->query_pkey(context_.get(), candidate_.port, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
}

TEST_P(Behaviour, RegionsHaveKeysAndRefuseRemoteWriteWithoutLocalWrite) {
  std::vector<uint8_t> memory(10000);
  {
    auto first = MemoryRegion::create(pd_, memory.data(), memory.size(), kAllAccess);
    ASSERT_TRUE(first) << first.status().text();
    auto second = MemoryRegion::create(pd_, memory.data(), 100, 0);
    ASSERT_TRUE(second) << second.status().text();
    EXPECT_NE(first->lkey(), second->lkey());
    EXPECT_EQ(first->get()->length, memory.size());
    EXPECT_EQ(first->get()->addr, memory.data());
    EXPECT_TRUE(first->destroy());
  }
  for (int access : {int{IBV_ACCESS_REMOTE_WRITE}, int{IBV_ACCESS_REMOTE_ATOMIC}}) {
    auto refused = MemoryRegion::create(pd_, memory.data(), memory.size(), access);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << refused.status().text();
  }
}

TEST_P(Behaviour, CompletionQueueHasAtLeastTheEntriesAsked) {
  auto cq = CompletionQueue::create(context_, 100);
  ASSERT_TRUE(cq) << cq.status().text();
  EXPECT_GE(cq->get()->cqe, 100);
  ibv_wc wc;
  EXPECT_EQ(cq->poll({&wc, 1}), 0);
  const Status resized = cq->resize(300);
  if (resized.code() == Code::kNotSupported) GTEST_SKIP() << resized.text();
  EXPECT_TRUE(resized) << resized.text();
  EXPECT_GE(cq->get()->cqe, 300);
}

TEST_P(Behaviour, CompletionQueueWithoutEntriesIsRefused) {
  EXPECT_FALSE(CompletionQueue::create(context_, 0).is_ok());
  EXPECT_FALSE(CompletionQueue::create(context_, -5).is_ok());
}

TEST_P(Behaviour, ResizeKeepsWhatIsInTheCompletionQueue) {
  End a = make_end(), b = make_end();
  connect(a, b);
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(b.post_recv(100 + i, 0, 64), 0);
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(a.post(a.request(i, IBV_WR_SEND, 0, 16)), 0);
  ASSERT_EQ(take(a.send_cq, 40).size(), 40u);
  const Status resized = b.recv_cq.resize(500);
  if (resized.code() == Code::kNotSupported) GTEST_SKIP() << resized.text();
  ASSERT_TRUE(resized) << resized.text();
  const std::vector<ibv_wc> got = take(b.recv_cq, 40);
  ASSERT_EQ(got.size(), 40u);
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(got[i].wr_id, 100 + i);
}

TEST_P(Behaviour, QueuePairRemembersItsAttributes) {
  End a = make_end(), b = make_end();
  RcPath path;
  path.timeout = 15;
  path.retry_count = 6;
  path.rnr_retry = 5;
  path.min_rnr_timer = 9;
  path.max_rd_atomic = 4;
  path.max_dest_rd_atomic = 8;
  path.path_mtu = IBV_MTU_512;
  connect(a, b, path);
  ibv_qp_attr got{};
  ibv_qp_init_attr init{};
  const int mask = IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
                   IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_AV | IBV_QP_CAP;
  ASSERT_EQ(candidate_.table->query_qp(a.qp.get(), &got, mask, &init), 0);
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.dest_qp_num, b.qp.qpn());
  EXPECT_EQ(got.path_mtu, IBV_MTU_512);
  EXPECT_EQ(got.timeout, 15);
  EXPECT_EQ(got.retry_cnt, 6);
  EXPECT_EQ(got.rnr_retry, 5);
  EXPECT_EQ(got.min_rnr_timer, 9);
  EXPECT_EQ(got.max_rd_atomic, 4);
  EXPECT_EQ(got.max_dest_rd_atomic, 8);
  EXPECT_EQ(got.ah_attr.is_global, 1);
  EXPECT_EQ(0, std::memcmp(got.ah_attr.grh.dgid.raw, candidate_.gids[0].bytes.data(), 16));
  EXPECT_EQ(got.ah_attr.grh.traffic_class, 106);
  EXPECT_GE(init.cap.max_send_wr, 128u);
  EXPECT_GE(init.cap.max_inline_data, 64u);
}

TEST_P(Behaviour, StatesCannotBeSkipped) {
  End end = make_end();
  EXPECT_EQ(end.qp.state().value(), IBV_QPS_RESET);
  EXPECT_FALSE(end.qp.rc_to_rts(RcPath{}).is_ok());
  RcPath path;
  path.address = own_address();
  path.dest_qpn = end.qp.qpn();
  EXPECT_FALSE(end.qp.rc_to_rtr(path).is_ok());
  EXPECT_EQ(end.qp.state().value(), IBV_QPS_RESET);
  ASSERT_TRUE(end.qp.rc_to_init(candidate_.port, kAllAccess));
  EXPECT_EQ(end.qp.state().value(), IBV_QPS_INIT);
  EXPECT_FALSE(end.qp.rc_to_rts(path).is_ok());
  // An attribute that RTR needs is missing.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  EXPECT_FALSE(end.qp.modify(attributes, IBV_QP_STATE, "to RTR without a path").is_ok());
  EXPECT_EQ(end.qp.state().value(), IBV_QPS_INIT);
}

TEST_P(Behaviour, QueuePairCanBeResetAndConnectedAgain) {
  End a = make_end(), b = make_end();
  for (int round = 0; round < 3; ++round) {
    connect(a, b);
    ASSERT_EQ(b.post_recv(7, 0, 64), 0);
    // Never used, and gone after the reset.
    ASSERT_EQ(b.post_recv(8, 0, 64), 0);
    a.fill(0, 64, static_cast<uint32_t>(round));
    ASSERT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 64)), 0);
    EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
    const ibv_wc received = take_one(b.recv_cq);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 7u);
    EXPECT_TRUE(b.holds(0, 64, static_cast<uint32_t>(round)));
    ASSERT_TRUE(a.qp.to_reset());
    ASSERT_TRUE(b.qp.to_reset());
    EXPECT_TRUE(stays_empty(b.recv_cq, std::chrono::milliseconds(5)));
  }
}

TEST_P(Behaviour, BusyObjectsAreNotDestroyed) {
  End end = make_end();
  const Status busy = pd_.destroy();
  EXPECT_NE(busy.text().find("protection domain"), std::string::npos) << busy.text();
  EXPECT_TRUE(pd_);
  EXPECT_FALSE(end.recv_cq.destroy().is_ok());
}

}  // namespace
}  // namespace roce::verbs
