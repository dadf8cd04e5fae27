// Time: adaptive resends, the budget of timeout and retry_cnt, exhaustion.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

/// 4.096 us x 2^exponent.
constexpr TimeNs unit(int exponent) { return TimeNs{4096} << exponent; }

struct Budget {
  uint8_t timeout, retry_cnt;
};

class RetryBudget : public testing::TestWithParam<Budget> {};

TEST_P(RetryBudget, SilentPeerIsGivenUpAfterTimeoutTimesRetryCountPlusOne) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = GetParam().timeout;
  attributes.retry_cnt = GetParam().retry_cnt;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kSend, 2, 8);
  const TimeNs start = solo.now;
  solo.packets();
  const TimeNs expected = unit(GetParam().timeout) * (GetParam().retry_cnt + 1u);
  solo.pass_time(start + 2 * expected + kMs);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kRetryExceeded}, {2, WcStatus::kFlushed}}));
  EXPECT_EQ(solo.counters.local_ack_timeout_err, GetParam().retry_cnt + 1u);
  EXPECT_EQ(solo.counters.retry_exceeded, 1u);
}

TEST_P(RetryBudget, IsNotUsedUpOneUnitBefore) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = GetParam().timeout;
  attributes.retry_cnt = GetParam().retry_cnt;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  const TimeNs start = solo.now;
  solo.packets();
  const TimeNs expected = unit(GetParam().timeout) * (GetParam().retry_cnt + 1u);
  solo.pass_time(start + expected - 1);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  solo.pass_time(start + expected + unit(GetParam().timeout));
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
}

INSTANTIATE_TEST_SUITE_P(Attributes, RetryBudget,
                         testing::Values(Budget{14, 7}, Budget{14, 0}, Budget{8, 3}, Budget{18, 1},
                                         Budget{1, 7}));

TEST(Timeout, ZeroNeverGivesUp) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = 0;
  attributes.retry_cnt = 0;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.pass_time(3'600'000 * kMs);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  EXPECT_EQ(solo.counters.local_ack_timeout_err, 0u);
  EXPECT_GT(solo.counters.adaptive_resends, 1000u);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(Timeout, ResendsInsideAUnitDoubleFromOneMillisecondAndAreNotRetries) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);  // A round trip of 50 us: the floor of 1 ms holds.
  solo.packets();
  solo.now += 50 * kUs;
  solo.take_ack(kSendPsn);
  solo.post(WrOpcode::kSend, 2, 8);
  const TimeNs start = solo.now;
  solo.packets();
  std::vector<TimeNs> resends;
  while (solo.now < start + 60 * kMs) {
    solo.now = solo.qp.poll_timer();
    solo.qp.handle_timer(solo.now);
    for (const OutPacket& packet : solo.packets()) {
      EXPECT_TRUE(packet.resend);
      EXPECT_EQ(packet.header.psn, kSendPsn + 1);
      resends.push_back(solo.now - start);
    }
  }
  EXPECT_EQ(resends, (std::vector<TimeNs>{kMs, 3 * kMs, 7 * kMs, 15 * kMs, 31 * kMs, 63 * kMs}));
  EXPECT_EQ(solo.counters.local_ack_timeout_err, 0u);
  EXPECT_EQ(solo.qp.trouble().retries, 0u);
}

TEST(Timeout, StaysDoubledUntilARoundTripIsMeasuredAgain) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.now += 50 * kUs;  // The first sample: 50 us, variation 25 us.
  solo.take_ack(kSendPsn);

  // The queue has grown: answers take 1.5 ms. This one comes after the resend and measures nothing,
  // since it may be of either packet.
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  solo.now += kMs;
  solo.qp.handle_timer(solo.now);
  EXPECT_EQ(solo.packets().size(), 1u);
  solo.now += 500 * kUs;
  solo.take_ack(kSendPsn + 1);

  solo.post(WrOpcode::kSend, 3, 8);
  solo.packets();
  EXPECT_EQ(solo.qp.poll_timer() - solo.now, 2 * kMs);
  solo.now += 1500 * kUs;
  solo.take_ack(kSendPsn + 2);

  solo.post(WrOpcode::kSend, 4, 8);
  solo.packets();
  // RFC 6298: variation 3/4 x 25 + 1/4 x 1450 = 381.25 us, mean 7/8 x 50 + 1/8 x 1500 = 231.25 us.
  EXPECT_EQ(solo.qp.poll_timer() - solo.now, 1'756'250u);
  EXPECT_EQ(solo.counters.adaptive_resends, 1u);
}

TEST(Timeout, ResendIsOneProbeUntilSomethingIsHeard) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 10 * kMtu);
  solo.packets();
  solo.now = solo.qp.poll_timer();
  solo.qp.handle_timer(solo.now);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.psn, kSendPsn);
  EXPECT_TRUE(out[0].header.ack_req);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.packets().size(), 9u);
}

TEST(Timeout, AckOfTheOriginalsAfterAProbeSkipsThem) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 10 * kMtu);
  solo.packets();
  solo.now = solo.qp.poll_timer();
  solo.qp.handle_timer(solo.now);
  solo.packets();
  solo.take_ack(kSendPsn + 7);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 8, kSendPsn + 9}));
  EXPECT_EQ(solo.qp.inflight_bytes(), 2 * kMtu);
}

TEST(Timeout, ProgressRenewsTheBudget) {
  QpAttributes attributes = default_attributes();
  attributes.retry_cnt = 0;
  Solo solo(attributes);  // One unit of 67 ms altogether.
  solo.post(WrOpcode::kSend, 1, 10 * kMtu);
  solo.packets();
  for (uint32_t i = 0; i < 9; ++i) {
    solo.pass_time(solo.now + 60 * kMs);
    ASSERT_EQ(solo.qp.state(), QpState::kRts);
    solo.take_ack(kSendPsn + i);
    solo.packets();
  }
  EXPECT_EQ(solo.qp.trouble().last_acked_psn, kSendPsn + 8);
}

TEST(Timeout, ReadResponsesAreProgress) {
  QpAttributes attributes = default_attributes();
  attributes.retry_cnt = 0;
  Solo solo(attributes);
  solo.post(WrOpcode::kRead, 1, 10 * kMtu);
  solo.packets();
  for (uint32_t i = 0; i < 9; ++i) {
    solo.pass_time(solo.now + 60 * kMs);
    ASSERT_EQ(solo.qp.state(), QpState::kRts);
    solo.take(Opcode::kRcReadResponseMiddle, kSendPsn + i, kMtu);
    solo.packets();
  }
}

TEST(Timeout, NothingOutstandingMeansNoTimer) {
  Solo solo;
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
  EXPECT_EQ(solo.qp.trouble().oldest_unacked_since, kNever);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  EXPECT_EQ(solo.qp.trouble().oldest_unacked_since, solo.now);
  EXPECT_NE(solo.qp.poll_timer(), kNever);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
}

TEST(Timeout, TroubleIsStillKnownAfterGivingUp) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = 8;
  attributes.retry_cnt = 2;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  const TimeNs start = solo.now;
  solo.packets();
  solo.pass_time(start + 1'000 * kMs);
  ASSERT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.qp.trouble().oldest_unacked_since, start);
  EXPECT_EQ(solo.qp.trouble().last_acked_psn, kSendPsn - 1);
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
}

TEST(Timeout, DriverThatWasAwayStillGivesEveryRetryItsTime) {
  QpAttributes attributes = default_attributes();
  attributes.retry_cnt = 2;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.now += 10'000 * kMs;
  solo.qp.handle_timer(solo.now);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  EXPECT_EQ(solo.qp.trouble().retries, 1u);
  EXPECT_EQ(solo.packets().size(), 1u);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

}  // namespace
}  // namespace roce::engine::test
