// Completion channels and shared receive queues.
#include <cstring>
#include <thread>
#include <utility>

#include "behaviour.h"

namespace roce::verbs {
namespace {

using std::chrono::milliseconds;

TEST_P(Behaviour, ArmedQueueGivesOneEventPerArming) {
  Result<CompletionChannel> channel = CompletionChannel::create(context_);
  ASSERT_TRUE(channel) << channel.status().text();
  int mark = 0;
  Result<CompletionQueue> cq = CompletionQueue::create(context_, 64, &*channel, &mark);
  ASSERT_TRUE(cq) << cq.status().text();
  EndOptions options;
  options.shared_recv_cq = &*cq;
  End a = make_end(), b = make_end(options);
  connect(a, b);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(b.post_recv(i, 0, 64), 0);

  // Not armed: no event.
  ASSERT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 8)), 0);
  ASSERT_EQ(take_one(*cq).wr_id, 0u);
  EXPECT_EQ(channel->wait(milliseconds(20)).status().code(), Code::kTimedOut);

  for (uint64_t i = 1; i < 4; ++i) {
    ASSERT_TRUE(cq->arm(false));
    ASSERT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 8)), 0);
    Result<void*> event = channel->wait(kPatience);
    ASSERT_TRUE(event) << event.status().text();
    EXPECT_EQ(event.value(), &mark);
    ASSERT_EQ(take_one(*cq).wr_id, i);
    // The arming is used up.
    EXPECT_EQ(channel->wait(milliseconds(1)).status().code(), Code::kTimedOut);
  }
}

TEST_P(Behaviour, SleeperIsWokenWithoutAnyonePolling) {
  Result<CompletionChannel> channel = CompletionChannel::create(context_);
  ASSERT_TRUE(channel);
  Result<CompletionQueue> cq = CompletionQueue::create(context_, 64, &*channel);
  ASSERT_TRUE(cq);
  EndOptions options;
  options.shared_recv_cq = &*cq;
  End a = make_end(), b = make_end(options);
  connect(a, b);
  ASSERT_EQ(b.post_recv(1, 0, 64), 0);
  ASSERT_TRUE(cq->arm(false));
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 8)), 0);
  });
  Result<void*> event = channel->wait(kPatience);
  sender.join();
  ASSERT_TRUE(event) << event.status().text();
  EXPECT_EQ(take_one(*cq).status, IBV_WC_SUCCESS);
}

TEST_P(Behaviour, SolicitedArmingWaitsForASolicitedSend) {
  Result<CompletionChannel> channel = CompletionChannel::create(context_);
  ASSERT_TRUE(channel);
  Result<CompletionQueue> cq = CompletionQueue::create(context_, 64, &*channel);
  ASSERT_TRUE(cq);
  EndOptions options;
  options.shared_recv_cq = &*cq;
  End a = make_end(), b = make_end(options);
  connect(a, b);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(b.post_recv(i, 0, 64), 0);
  ASSERT_TRUE(cq->arm(true));
  ASSERT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 8)), 0);
  ASSERT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(channel->wait(milliseconds(30)).status().code(), Code::kTimedOut);
  ibv_send_wr solicited = a.request(2, IBV_WR_SEND, 0, 8);
  solicited.send_flags |= IBV_SEND_SOLICITED;
  ASSERT_EQ(a.post(solicited), 0);
  Result<void*> event = channel->wait(kPatience);
  ASSERT_TRUE(event) << event.status().text();
  EXPECT_EQ(take(*cq, 2).size(), 2u);
}

class Srq : public Behaviour {
 protected:
  void SetUp() override {
    Behaviour::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (context_.query_device().value().max_srq == 0) {
      GTEST_SKIP() << candidate_.device << " has no shared receive queues";
    }
    Result<SharedReceiveQueue> srq = SharedReceiveQueue::create(pd_, 64, 2);
    ASSERT_TRUE(srq) << srq.status().text();
    srq_ = std::move(*srq);
    pool_ = make_end();
  }

  End make_consumer() {
    EndOptions options;
    options.srq = &srq_;
    return make_end(options);
  }

  int post(uint64_t id, size_t offset, size_t bytes) {
    ibv_sge sge = pool_.piece(offset, bytes);
    ibv_recv_wr request{}, *bad = nullptr;
    request.wr_id = id;
    request.sg_list = &sge;
    request.num_sge = 1;
    return ibv_post_srq_recv(srq_.get(), &request, &bad);
  }

  SharedReceiveQueue srq_;
  End pool_;  // Lends its memory.
};

TEST_P(Srq, ServesAllItsQueuePairsInOrderOfArrival) {
  End a1 = make_end(), a2 = make_end(), b1 = make_consumer(), b2 = make_consumer();
  connect(a1, b1);
  connect(a2, b2);
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(post(100 + i, i * 64, 64), 0);
  for (uint64_t i = 0; i < 10; ++i) {
    End& from = i % 2 ? a1 : a2;
    End& to = i % 2 ? b1 : b2;
    from.fill(0, 64, static_cast<uint32_t>(i));
    ASSERT_EQ(from.post(from.request(i, IBV_WR_SEND, 0, 64)), 0);
    const ibv_wc received = take_one(to.recv_cq);
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 100 + i);
    EXPECT_EQ(received.qp_num, to.qp.qpn());
    EXPECT_TRUE(pool_.holds(i * 64, 64, static_cast<uint32_t>(i)));
    ASSERT_EQ(take_one(from.send_cq).status, IBV_WC_SUCCESS);
  }
}

TEST_P(Srq, EmptyQueueMakesSendersWait) {
  End a = make_end(), b = make_consumer();
  RcPath path;
  path.rnr_retry = 7;
  connect(a, b, path);
  ASSERT_EQ(a.post(a.request(1, IBV_WR_SEND, 0, 64)), 0);
  EXPECT_TRUE(stays_empty(a.send_cq, milliseconds(20)));
  ASSERT_EQ(post(5, 0, 64), 0);
  EXPECT_EQ(take_one(b.recv_cq).wr_id, 5u);
  EXPECT_EQ(take_one(a.send_cq).status, IBV_WC_SUCCESS);
}

TEST_P(Srq, LimitEventComesOnceWhenTheQueueRunsLow) {
  End a = make_end(), b = make_consumer();
  connect(a, b);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(post(i, 0, 64), 0);
  const Status armed = srq_.set_limit(6);
  ASSERT_TRUE(armed) << armed.text();
  ibv_srq_attr attributes{};
  ASSERT_EQ(candidate_.table->query_srq(srq_.get(), &attributes), 0);
  EXPECT_EQ(attributes.srq_limit, 6u);
  EXPECT_GE(attributes.max_wr, 64u);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(a.post(a.request(i, IBV_WR_SEND, 0, 8)), 0);
    ASSERT_EQ(take_one(b.recv_cq).status, IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(wait_async(context_, IBV_EVENT_SRQ_LIMIT_REACHED));
  ASSERT_EQ(candidate_.table->query_srq(srq_.get(), &attributes), 0);
  EXPECT_EQ(attributes.srq_limit, 0u) << "the limit disarms itself";
}

TEST_P(Srq, OutlivesAQueuePairInError) {
  End a1 = make_end(), a2 = make_end(), b1 = make_consumer(), b2 = make_consumer();
  connect(a1, b1);
  connect(a2, b2);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(i, i * 64, 64), 0);
  ASSERT_TRUE(b1.qp.to_error());
  // Its requests belong to the SRQ: nothing is flushed.
  EXPECT_TRUE(stays_empty(b1.recv_cq, milliseconds(10)));
  ASSERT_EQ(a2.post(a2.request(1, IBV_WR_SEND, 0, 64)), 0);
  EXPECT_EQ(take_one(b2.recv_cq).wr_id, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Srq, testing::Values("soft", "system"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace roce::verbs
