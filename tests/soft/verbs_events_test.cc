// Completion events, asynchronous events, shared receive queues; threads that sleep beside threads
// that poll.
#include <fcntl.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "rig.h"

namespace roce::soft::test {
namespace {

/// The long form of a test runs with ROCE_TEST_LONG=1.
bool long_form() { return std::getenv("ROCE_TEST_LONG") != nullptr; }

struct EventRig {
  ibv_context* context = open_loopback();
  ibv_comp_channel* channel = create_comp_channel(context);
  Rig a, b;
  explicit EventRig(const QpOptions& options = {})
      : a(options, nullptr, context), b(options, channel, context) {
    a.make_memory(1 << 16);
    b.make_memory(1 << 16);
    a.connect(b.name());
    b.connect(a.name());
  }
  static void close(ibv_context* context, ibv_comp_channel* channel) {
    EXPECT_EQ(destroy_comp_channel(channel), 0);
    EXPECT_EQ(close_device(context), 0);
  }
};

/// Closes after the rigs, which the channel must outlive.
struct Closing {
  ibv_context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
  ~Closing() { EventRig::close(context, channel); }
};

TEST(SoftEvents, OneEventForOneArming) {
  Closing closing;
  EventRig rig;
  closing = {rig.context, rig.channel};
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig.b.receive(i, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  EXPECT_FALSE(wait_event(rig.channel, 0));
  ASSERT_EQ(rig.a.send(0, IBV_WR_SEND, 0, 8), 0);
  EXPECT_TRUE(wait_event(rig.channel, 5000));  // Nobody polls: the service thread receives.
  ASSERT_EQ(rig.a.send(1, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(rig.b.wait().wr_id, 0u);
  EXPECT_EQ(rig.b.wait().wr_id, 1u);
  EXPECT_FALSE(wait_event(rig.channel, 0)) << "not armed again";
}

TEST(SoftEvents, SolicitedArmingIgnoresOtherMessages) {
  Closing closing;
  EventRig rig;
  closing = {rig.context, rig.channel};
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig.b.receive(i, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 1), 0);
  ASSERT_EQ(rig.a.send(0, IBV_WR_SEND, 0, 8), 0);
  EXPECT_EQ(rig.b.wait().wr_id, 0u);
  EXPECT_FALSE(wait_event(rig.channel, 0));
  ASSERT_EQ(rig.a.send(1, IBV_WR_SEND, 0, 8, IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(wait_event(rig.channel, 5000));
}

TEST(SoftEvents, ErrorsCountAsSolicited) {
  Closing closing;
  EventRig rig;
  closing = {rig.context, rig.channel};
  ASSERT_EQ(rig.b.receive(7, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 1), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(modify_qp(rig.b.qp, &attr, IBV_QP_STATE), 0);
  EXPECT_TRUE(wait_event(rig.channel, 5000));
  EXPECT_EQ(rig.b.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(SoftEvents, ANonBlockingChannelAnswersEagain) {
  Closing closing;
  EventRig rig;
  closing = {rig.context, rig.channel};
  ASSERT_EQ(fcntl(rig.channel->fd, F_SETFL, fcntl(rig.channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(get_cq_event(rig.channel, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(rig.b.receive(0, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  ASSERT_EQ(rig.a.send(0, IBV_WR_SEND, 0, 8), 0);
  pollfd fd = {rig.channel->fd, POLLIN, 0};
  ASSERT_EQ(poll(&fd, 1, 5000), 1);
  ASSERT_EQ(get_cq_event(rig.channel, &cq, &context), 0);
  EXPECT_EQ(cq, rig.b.cq);
  EXPECT_EQ(context, &rig.b);
  ack_cq_events(cq, 1);
}

TEST(SoftEvents, AsleepOnOneDeviceWhileAnotherIsPolled) {
  const uint64_t rounds = long_form() ? 1'000'000 : 50'000;
  Closing closing;
  EventRig rig;
  closing = {rig.context, rig.channel};
  Rig other;  // A second context, polled all the time.
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    ibv_wc wc;
    while (!stop.load()) ibv_poll_cq(other.cq, 1, &wc);
  });
  std::atomic<uint64_t> received{0};
  std::atomic<const char*> ended{"asleep"};
  std::thread sleeper([&] {
    ibv_wc wc[16];
    for (uint64_t got = 0; got < rounds;) {
      if (ibv_req_notify_cq(rig.b.cq, 0) != 0) return ended.store("req_notify");
      int n = 0;
      while ((n = ibv_poll_cq(rig.b.cq, 16, wc)) > 0) {
        for (int i = 0; i < n; ++i) {
          if (wc[i].status != IBV_WC_SUCCESS) return ended.store("status");
          if (rig.b.receive(0, 0, 8) != 0) return ended.store("receive");
        }
        got += static_cast<uint64_t>(n);
        received.store(got);
      }
      if (got >= rounds) break;
      if (!wait_event(rig.channel, 20000)) return ended.store("no event");
    }
  });
  for (int i = 0; i < 32; ++i) ASSERT_EQ(rig.b.receive(0, 0, 8), 0);
  const auto start = std::chrono::steady_clock::now();
  double last_progress = 0;
  uint64_t sent = 0;
  ibv_wc wc;
  while (received.load() < rounds && seconds_since(start) < last_progress + 30) {
    if (sent < rounds && sent < received.load() + 1) {
      if (rig.a.send(sent, IBV_WR_SEND, 0, 8, IBV_SEND_INLINE) == 0) ++sent;
      last_progress = seconds_since(start);
    } else {
      sched_yield();
    }
    while (ibv_poll_cq(rig.a.cq, 1, &wc) > 0) {
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    }
  }
  char text[512];
  describe_qp(rig.a.qp, text, sizeof text);
  EXPECT_EQ(received.load(), rounds) << text << ", sleeper: " << ended.load() << ", sent " << sent;
  stop.store(true);
  poller.join();
  sleeper.join();
}

TEST(SoftEvents, SharedReceiveQueueFeedsTwoAndReportsItsLimit) {
  Rig owner;
  owner.make_memory(1 << 16);
  ibv_srq_init_attr init{};
  init.attr = {16, 2, 0};
  ibv_srq* srq = create_srq(owner.pd, &init);
  ASSERT_NE(srq, nullptr);
  const auto post = [&](uint64_t id) {
    ibv_sge element = owner.sge(id * 64, 64);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &element;
    wr.num_sge = 1;
    return ibv_post_srq_recv(srq, &wr, &bad);
  };
  for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(post(i), 0);
  EXPECT_EQ(post(16), ENOMEM);
  // Both receivers live in the owner's domain and context.
  QpOptions shared;
  shared.srq = srq;
  ibv_qp_init_attr qp_init{};
  qp_init.send_cq = qp_init.recv_cq = owner.cq;
  qp_init.srq = srq;
  qp_init.qp_type = IBV_QPT_RC;
  qp_init.cap = {8, 0, 1, 0, 0};
  ASSERT_EQ(destroy_qp(owner.qp), 0);
  Rig senders[2];
  ibv_qp* receivers[2];
  for (int i = 0; i < 2; ++i) {
    senders[i].make_memory(4096);
    receivers[i] = create_qp(owner.pd, &qp_init);
    ASSERT_NE(receivers[i], nullptr);
    owner.qp = receivers[i];
    senders[i].connect(owner.name());
    owner.connect(senders[i].name());
  }
  owner.qp = nullptr;
  ibv_srq_attr attr{0, 0, 12};
  ASSERT_EQ(modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(query_srq(srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 12u);
  EXPECT_EQ(attr.max_wr, 16u);
  for (int i = 0; i < 5; ++i) {
    std::memset(senders[i % 2].data, 'a' + i, 8);
    ASSERT_EQ(senders[i % 2].send(i, IBV_WR_SEND, 0, 8), 0);
    const ibv_wc wc = owner.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, static_cast<uint64_t>(i));
    EXPECT_EQ(wc.qp_num, receivers[i % 2]->qp_num);
    EXPECT_EQ(owner.data[i * 64], 'a' + i);
  }
  pollfd fd = {owner.context->async_fd, POLLIN, 0};
  bool limit = false;
  while (poll(&fd, 1, 0) == 1) {
    ibv_async_event event{};
    ASSERT_EQ(get_async_event(owner.context, &event), 0);
    limit = limit || (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
    ack_async_event(&event);
  }
  EXPECT_TRUE(limit);
  EXPECT_EQ(destroy_srq(srq), EBUSY);
  for (ibv_qp* qp : receivers) ASSERT_EQ(destroy_qp(qp), 0);
  EXPECT_EQ(destroy_srq(srq), 0);
}

TEST(SoftEvents, ResponderErrorsRaiseAnAsynchronousEvent) {
  Pair pair;
  ASSERT_EQ(pair.a.send(1, IBV_WR_RDMA_WRITE, 0, 8, 0, reinterpret_cast<uintptr_t>(pair.b.data),
                        pair.b.mr->rkey ^ 1),
            0);
  ASSERT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
  bool access = false;
  pollfd fd = {pair.b.context->async_fd, POLLIN, 0};
  while (!access && poll(&fd, 1, 5000) == 1) {
    ibv_async_event event{};
    ASSERT_EQ(get_async_event(pair.b.context, &event), 0);
    access = event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == pair.b.qp;
    ack_async_event(&event);
  }
  EXPECT_TRUE(access);
}

TEST(SoftEvents, AWordThatChangesAllTheTimeStillTravels) {
  const int small = long_form() ? 100'000 : 10'000, large = long_form() ? 1'000 : 50;
  constexpr uint32_t kLarge = 1 << 20;
  Pair pair({}, 2 * kLarge);
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the test is a data race on purpose: a NIC reads memory without asking";
#endif
  std::atomic<bool> stop{false};
  auto* word = reinterpret_cast<uint64_t*>(pair.a.data + 4096);
  auto* far = reinterpret_cast<uint64_t*>(pair.b.data + 4096);
  std::thread changer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
      __atomic_fetch_add(far, 1, __ATOMIC_RELAXED);
    }
  });
  const uint64_t local = 4096, remote = reinterpret_cast<uintptr_t>(pair.b.data);
  int failed = 0;
  for (int i = 0; i < small && failed == 0; ++i) {
    const ibv_wr_opcode opcode = i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    // A WRITE from the changing word, a READ of one.
    const size_t to = i % 2 == 0 ? local : 0;
    failed += pair.a.send(i, opcode, to, 8, 0, remote + (i % 2 == 0 ? 0 : 4096), pair.b.mr->rkey);
    failed += pair.a.wait().status;
  }
  for (int i = 0; i < large && failed == 0; ++i) {
    const ibv_wr_opcode opcode = i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    failed += pair.a.send(i, opcode, i % 2 == 0 ? 0 : kLarge, kLarge, 0,
                          remote + (i % 2 == 0 ? kLarge : 0), pair.b.mr->rkey);
    failed += pair.a.wait(30).status;
  }
  stop.store(true);
  changer.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace roce::soft::test
