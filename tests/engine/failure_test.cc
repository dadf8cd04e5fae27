// Failures over the network, with both drivers: what each side sees, and when.
#include <gtest/gtest.h>

#include "solo.h"
#include "traffic.h"

namespace roce::engine::test {
namespace {

constexpr uint32_t kMegabyte = 1 << 20;

class Failure : public testing::TestWithParam<bool> {
 protected:
  void connect(const Impairments& impairments, const QpAttributes& attributes) {
    if (GetParam()) {
      a_ = std::make_unique<PayloadHost>(Traffic::config(1), 4, 1, 1);
      b_ = std::make_unique<PayloadHost>(Traffic::config(2), 4, 1, 2);
    } else {
      a_ = std::make_unique<LengthsHost>(Traffic::config(1), 4, 1);
      b_ = std::make_unique<LengthsHost>(Traffic::config(2), 4, 1);
    }
    network_ = std::make_unique<Network>(*a_, *b_, impairments, 7);
    for (Host* host : {a_.get(), b_.get()}) {
      QpAttributes own = attributes;
      own.dest_qpn = host == a_.get() ? 2 : 1;
      own.sq_psn = own.rq_psn = 0xFFFFFE;
      host->qp.set_state(QpState::kInit, network_->now);
      host->qp.set_attributes(own);
      PathLimits limits;
      limits.read_segment_bytes = 65536;
      limits.max_read_bytes = 131072;
      host->qp.set_limits(limits);
      host->qp.set_state(QpState::kRtr, network_->now);
      host->qp.set_state(QpState::kRts, network_->now);
      host->on_completion = [this, host](const Completion& completion) {
        (host == a_.get() ? at_a_ : at_b_).push_back(completion);
        finished_at_ = network_->now;
      };
    }
  }

  int post(WrOpcode opcode, uint32_t length, uint32_t local_key, uint32_t remote_key = 0) {
    SendRequest request;
    request.wr_id = 1;
    request.opcode = opcode;
    request.signaled = true;
    if (remote_key != 0) {
      request.rkey = remote_key;
      request.remote_addr = b_->arena.va(remote_key);
    }
    const Sge sge = a_->arena.sge(local_key, 0, length);
    request.sges = {&sge, 1};
    return a_->qp.post_send(request, network_->now);
  }

  bool run_until_completed() {
    return network_->run([this] { return !at_a_.empty(); }, 1'000'000);
  }

  std::unique_ptr<Host> a_, b_;
  std::unique_ptr<Network> network_;
  std::vector<Completion> at_a_, at_b_;
  TimeNs finished_at_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Drivers, Failure, testing::Bool(),
                         [](const auto& info) { return info.param ? "Payload" : "Lengths"; });

TEST_P(Failure, RegionDeregisteredUnderAPacedReadIsRemoteAccessError) {
  connect({}, default_attributes());
  const uint32_t local = a_->arena.add(kMegabyte, kLocalWrite);
  const uint32_t remote = b_->arena.add(kMegabyte, kRemoteRead);
  ASSERT_EQ(post(WrOpcode::kRead, kMegabyte, local, remote), 0);
  int responses = 0;
  b_->on_send = [&](const OutPacket& packet) {
    // Half of the 1,024 responses have left.
    if (packet.payload.kind == PayloadRef::Kind::kRemoteRegion && ++responses == 512) {
      b_->arena.remove(remote);
    }
  };
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(responses, 512) << "nothing is read after the first refusal";
  EXPECT_EQ(b_->gather_faults, 1u);
  EXPECT_EQ(a_->qp.state(), QpState::kErr);
  EXPECT_EQ(b_->qp.state(), QpState::kErr);
  EXPECT_EQ(b_->qp.take_events(), unsigned{kEventAccessError});
  EXPECT_TRUE(a_->arena.guards_intact());
}

TEST_P(Failure, RegionDeregisteredUnderAReadIsReportedOnALossyNetworkToo) {
  connect({.loss = 0.05}, default_attributes());
  const uint32_t local = a_->arena.add(kMegabyte, kLocalWrite);
  const uint32_t remote = b_->arena.add(kMegabyte, kRemoteRead);
  ASSERT_EQ(post(WrOpcode::kRead, kMegabyte, local, remote), 0);
  network_->at(network_->now + 100'000, [&] { b_->arena.remove(remote); });
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kRemoteAccess);
}

TEST_P(Failure, RegionDeregisteredUnderAWriteIsRemoteAccessError) {
  connect({}, default_attributes());
  const uint32_t local = a_->arena.add(kMegabyte, 0);
  const uint32_t remote = b_->arena.add(kMegabyte, kLocalWrite | kRemoteWrite);
  ASSERT_EQ(post(WrOpcode::kWrite, kMegabyte, local, remote), 0);
  network_->at(network_->now + 50'000, [&] { b_->arena.remove(remote); });
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(b_->qp.take_events(), unsigned{kEventAccessError});
}

TEST_P(Failure, LocalRegionDeregisteredUnderASendIsLocalProtectionError) {
  connect({}, default_attributes());
  const uint32_t local = a_->arena.add(kMegabyte, 0);
  const uint32_t remote = b_->arena.add(kMegabyte, kLocalWrite | kRemoteWrite);
  ASSERT_EQ(post(WrOpcode::kWrite, kMegabyte, local, remote), 0);
  network_->at(network_->now + 50'000, [&] { a_->arena.remove(local); });
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kLocalProtection);
  EXPECT_EQ(b_->qp.state(), QpState::kRts);
}

TEST_P(Failure, DeadNetworkIsGivenUpAfterTheBudget) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = 12;  // 16.777216 ms
  attributes.retry_cnt = 4;
  connect({.loss = 1}, attributes);
  const uint32_t local = a_->arena.add(64, 0);
  const TimeNs start = network_->now;
  ASSERT_EQ(post(WrOpcode::kSend, 64, local), 0);
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kRetryExceeded);
  const int64_t unit = 16'777'216;
  EXPECT_NEAR(static_cast<double>(finished_at_ - start), 5.0 * unit, unit);
}

TEST_P(Failure, ReceiverThatNeverPostsEndsInRnrRetryExceeded) {
  QpAttributes attributes = default_attributes();
  attributes.rnr_retry = 3;
  attributes.min_rnr_timer = 14;  // 1.28 ms
  connect({}, attributes);
  const uint32_t local = a_->arena.add(64, 0);
  const TimeNs start = network_->now;
  ASSERT_EQ(post(WrOpcode::kSend, 64, local), 0);
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kRnrRetryExceeded);
  EXPECT_EQ(b_->counters.rnr_naks_sent, 4u);
  EXPECT_NEAR(static_cast<double>(finished_at_ - start), 3 * 1'280'000.0, 200'000.0);
}

TEST_P(Failure, ReceiverThatPostsLateIsWaitedFor) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = 8;  // 1.05 ms: the wait is longer than the whole budget.
  attributes.retry_cnt = 1;
  connect({}, attributes);
  const uint32_t local = a_->arena.add(64, 0);
  const uint32_t buffer = b_->arena.add(64, kLocalWrite);
  ASSERT_EQ(post(WrOpcode::kSend, 64, local), 0);
  network_->at(network_->now + 50'000'000, [&] {
    const Sge sge = b_->arena.sge(buffer, 0, 64);
    RecvRequest request;
    request.sges = {&sge, 1};
    ASSERT_EQ(b_->qp.post_recv(request), 0);
  });
  ASSERT_TRUE(run_until_completed());
  EXPECT_EQ(at_a_[0].status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace roce::engine::test
