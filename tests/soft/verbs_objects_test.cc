// Every object of the device can be made, asked and destroyed, and refuses what verbs refuse.
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"

namespace roce::soft::test {
namespace {

TEST(SoftObjects, DeviceListNamesEveryDeviceAndEndsWithLoopback) {
  int count = 0;
  ibv_device** list = get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_GE(count, 1);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(std::string(get_device_name(list[i])), "rocesw" + std::to_string(i));
    EXPECT_EQ(list[i]->node_type, IBV_NODE_CA);
    EXPECT_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
    // What vendor libraries read behind the public structure must be zero.
    const auto* behind = reinterpret_cast<const uint8_t*>(list[i] + 1);
    for (int k = 0; k < 256; ++k) ASSERT_EQ(behind[k], 0) << k;
  }
  EXPECT_EQ(list[count], nullptr);
  EXPECT_STREQ(list[count - 1]->ibdev_path, "/sys/class/net/lo");
  free_device_list(list);
}

TEST(SoftObjects, NoOperationIsNull) {
  ibv_context* context = open_loopback();
  ASSERT_NE(context, nullptr);
  verbs_context* extended = verbs_get_ctx(context);
  ASSERT_NE(extended, nullptr);
  EXPECT_EQ(extended->sz, sizeof(verbs_context));
  const auto count_null = [](const void* start, size_t bytes) {
    int nulls = 0;
    for (size_t at = 0; at < bytes; at += sizeof(void*)) {
      void* pointer;
      std::memcpy(&pointer, static_cast<const uint8_t*>(start) + at, sizeof pointer);
      nulls += pointer == nullptr;
    }
    return nulls;
  };
  EXPECT_EQ(count_null(&context->ops, sizeof context->ops), 0);
  // `priv` belongs to libibverbs and is not an operation.
  EXPECT_EQ(count_null(extended, offsetof(verbs_context, _ABI_placeholder3)), 1);
  EXPECT_EQ(extended->priv, nullptr);
  EXPECT_EQ(close_device(context), 0);
}

TEST(SoftObjects, QueriesTellTheTruth) {
  ibv_context* context = open_loopback();
  ASSERT_NE(context, nullptr);
  ibv_device_attr device{};
  ASSERT_EQ(query_device(context, &device), 0);
  EXPECT_EQ(device.phys_port_cnt, 1);
  EXPECT_EQ(device.max_qp, 16383);
  EXPECT_NE(device.vendor_id, 0u);
  EXPECT_NE(device.node_guid, 0u);
  EXPECT_EQ(device.node_guid, get_device_guid(context->device));
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp, device.max_qp);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
  std::vector<ibv_gid_entry> entries(32);
  const ssize_t gids =
      query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  ASSERT_GE(gids, 1);
  for (ssize_t i = 0; i < gids; ++i) EXPECT_EQ(entries[i].gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  uint16_t pkey = 0;
  EXPECT_EQ(query_pkey(context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_NE(query_pkey(context, 1, 1, &pkey), 0);
  EXPECT_EQ(close_device(context), 0);
}

TEST(SoftObjects, WhatIsInUseIsNotDestroyed) {
  Rig rig;
  rig.make_memory(4096);
  EXPECT_EQ(destroy_cq(rig.cq), EBUSY);
  EXPECT_EQ(dealloc_pd(rig.pd), EBUSY);
  EXPECT_EQ(close_device(rig.context), EBUSY);
}

TEST(SoftObjects, RegionsCheckAccessAndMemory) {
  Rig rig;
  static uint8_t memory[8192];
  EXPECT_EQ(reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_REMOTE_ATOMIC), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(reg_mr(rig.pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  // A hole of unmapped memory.
  void* hole = mmap(nullptr, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 1 << 16);
  EXPECT_EQ(reg_mr(rig.pd, hole, 1 << 16, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* empty = reg_mr(rig.pd, memory, 0, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(empty, nullptr);
  ibv_mr* full = reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(full, nullptr);
  EXPECT_NE(empty->rkey, full->rkey);
  EXPECT_EQ(dereg_mr(empty), 0);
  EXPECT_EQ(dereg_mr(full), 0);
}

TEST(SoftObjects, KeysAreNotPredictable) {
  Rig rig;
  static uint8_t memory[64];
  std::vector<uint32_t> keys;
  uint32_t ones[32] = {};
  for (int i = 0; i < 1000; ++i) {
    ibv_mr* mr = reg_mr(rig.pd, memory, sizeof memory, 0);
    ASSERT_NE(mr, nullptr);
    keys.push_back(mr->rkey);
    for (int bit = 0; bit < 32; ++bit) ones[bit] += mr->rkey >> bit & 1;
    ASSERT_EQ(dereg_mr(mr), 0);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_GE(std::unique(keys.begin(), keys.end()) - keys.begin(), 999);
  // Every bit is a fair coin: 1,000 throws stay within 500 +- 6 standard deviations of 15.8.
  for (int bit = 0; bit < 32; ++bit) EXPECT_NEAR(ones[bit], 500, 95) << "bit " << bit;
}

TEST(SoftObjects, QueuePairTypesAndLimits) {
  Rig rig;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = rig.cq;
  init.cap = {8, 8, 1, 1, 0};
  init.qp_type = IBV_QPT_UC;
  EXPECT_EQ(create_qp(rig.pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.qp_type = IBV_QPT_RC;
  init.cap.max_inline_data = 513;
  EXPECT_EQ(create_qp(rig.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cap.max_inline_data = 512;
  init.recv_cq = nullptr;
  EXPECT_EQ(create_qp(rig.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.recv_cq = rig.cq;
  ibv_qp* qp = create_qp(rig.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(init.cap.max_inline_data, 512u);
  // Soft numbers: bit 23, the slot of this process in bits 22..14.
  PeerHints hints;
  ASSERT_EQ(device_hints(rig.context, &hints), 0);
  EXPECT_EQ(qp->qp_num >> 23, 1u);
  EXPECT_EQ((qp->qp_num >> 14 & 0x1FF) + 4791, hints.udp_port);
  EXPECT_EQ(destroy_qp(qp), 0);
}

TEST(SoftObjects, CompletionQueueResizesAndKeepsItsCompletions) {
  QpOptions options;
  options.signal_all = true;
  Pair pair(options);
  for (uint64_t i = 0; i < 16; ++i) {
    ASSERT_EQ(pair.a.send(i, IBV_WR_RDMA_WRITE, 0, 8, 0, reinterpret_cast<uintptr_t>(pair.b.data),
                          pair.b.mr->rkey),
              0);
  }
  const auto start = std::chrono::steady_clock::now();
  while (seconds_since(start) < 0.2) progress();
  EXPECT_EQ(resize_cq(pair.a.cq, 8), EINVAL);
  EXPECT_EQ(resize_cq(pair.a.cq, 16), 0);
  EXPECT_EQ(pair.a.cq->cqe, 16);
  for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.a.wait().wr_id, i);
}

TEST(SoftObjects, OverrunOfACompletionQueueIsReported) {
  Pair pair;
  ASSERT_EQ(resize_cq(pair.a.cq, 4), 0);
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(pair.a.send(i, IBV_WR_RDMA_WRITE, 0, 8, 0, reinterpret_cast<uintptr_t>(pair.b.data),
                          pair.b.mr->rkey),
              0);
  }
  pollfd fd = {pair.a.context->async_fd, POLLIN, 0};
  const auto start = std::chrono::steady_clock::now();
  while (poll(&fd, 1, 0) == 0 && seconds_since(start) < 10) progress();
  ASSERT_EQ(fd.revents, POLLIN);
  ibv_async_event event{};
  ASSERT_EQ(get_async_event(pair.a.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, pair.a.cq);
  ack_async_event(&event);
}

TEST(SoftObjects, ExtendedCompletionQueueReadsFields) {
  Rig rig;
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(rig.context, &attr);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr poll_attr{};
  EXPECT_EQ(ibv_start_poll(cq, &poll_attr), ENOENT);
  EXPECT_EQ(destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  attr.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  EXPECT_EQ(ibv_create_cq_ex(rig.context, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(SoftObjects, TenThousandIdleQueuePairsCostNothing) {
  Pair pair;
  const auto round_us = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20000; ++i) progress();
    return seconds_since(start) * 1e6 / 20000;
  };
  QpOptions small;
  small.depth = 4;
  small.max_inline = 0;
  const double alone = std::min({round_us(), round_us(), round_us()});
  std::vector<ibv_qp*> idle;
  for (int i = 0; i < 10000; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = pair.a.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    ibv_qp* qp = create_qp(pair.a.pd, &init);
    ASSERT_NE(qp, nullptr) << i << " " << std::strerror(errno);
    idle.push_back(qp);
  }
  const double crowded = std::min({round_us(), round_us(), round_us()});
  for (ibv_qp* qp : idle) ASSERT_EQ(destroy_qp(qp), 0);
  EXPECT_LT(crowded, 3 * alone + 1);
}

}  // namespace
}  // namespace roce::soft::test
