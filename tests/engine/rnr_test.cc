// RNR NAK: no receive request at the responder.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

/// Code 12 of the timer table: 0.64 ms.
constexpr uint8_t kRnr12 = 0x20 | 12;
constexpr TimeNs kTimer12 = 640 * kUs;

TEST(RnrRequester, WaitsTheTimerAndSendsAgain) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  solo.take_ack(kSendPsn, kRnr12);
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_EQ(solo.qp.poll_timer(), solo.now + kTimer12);
  solo.now += kTimer12 - 1;
  EXPECT_TRUE(solo.packets().empty());
  solo.now += 1;
  solo.qp.handle_timer(solo.now);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.psn, kSendPsn);
  EXPECT_TRUE(out[0].resend);
  EXPECT_EQ(solo.counters.rnr_naks_received, 1u);
}

TEST(RnrRequester, AcknowledgesWhatCameBefore) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 1, kRnr12);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

/// One RNR NAK and the resend after it.
void refuse_once(Solo& solo) {
  solo.take_ack(kSendPsn, kRnr12);
  solo.now += kTimer12;
  solo.qp.handle_timer(solo.now);
  solo.packets();
}

TEST(RnrRequester, RnrRetryCountEndsInRnrRetryExceeded) {
  QpAttributes attributes = default_attributes();
  attributes.rnr_retry = 2;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  for (int i = 0; i < 2; ++i) refuse_once(solo);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  refuse_once(solo);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kRnrRetryExceeded}, {2, WcStatus::kFlushed}}));
  EXPECT_EQ(solo.counters.rnr_retry_exceeded, 1u);
}

TEST(RnrRequester, SevenMeansForEver) {
  Solo solo;  // rnr_retry 7
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  for (int i = 0; i < 1000; ++i) refuse_once(solo);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(RnrRequester, DuplicatedNakCountsOnce) {
  QpAttributes attributes = default_attributes();
  attributes.rnr_retry = 1;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.take_ack(kSendPsn, kRnr12);
  solo.take_ack(kSendPsn, kRnr12);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
}

TEST(RnrRequester, WaitingForTheReceiverUsesNoTimeoutBudget) {
  QpAttributes attributes = default_attributes();
  attributes.timeout = 1;  // 8.192 us, far below the RNR timer.
  attributes.retry_cnt = 0;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.take_ack(kSendPsn, kRnr12);
  solo.pass_time(solo.now + kTimer12 - 1);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
}

TEST(RnrResponder, SendWithoutReceiveRequestIsNotReady) {
  QpAttributes attributes = default_attributes();
  attributes.min_rnr_timer = 20;
  Solo solo(attributes);
  const Effects effects = solo.take(Opcode::kRcSendOnly, kReceivePsn, 8);
  EXPECT_EQ(effects.drop, Drop::kNoReceive);
  const auto out = solo.packets();
  // What was sent behind it is dropped silently.
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8);
  EXPECT_TRUE(solo.packets().empty());
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, 0x20 | 20);
  EXPECT_EQ(out[0].header.psn, kReceivePsn);
  EXPECT_EQ(solo.counters.rnr_naks_sent, 1u);
  EXPECT_EQ(solo.qp.expected_psn(), kReceivePsn);

  solo.post_recv(5, 64);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn, 8).drop, Drop::kNone);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{5, WcStatus::kSuccess}}));
}

TEST(RnrResponder, WriteWithImmediateNeedsItsReceiveRequestAtTheLastPacket) {
  Solo solo;
  wire::Header first = Solo::header(Opcode::kRcWriteFirst, kReceivePsn, false);
  first.dma_length = kMtu + 8;
  EXPECT_EQ(solo.take(first, kMtu).drop, Drop::kNone);
  EXPECT_EQ(solo.take(Opcode::kRcWriteLastImm, kReceivePsn + 1, 8).drop, Drop::kNoReceive);
  EXPECT_EQ(solo.packets().at(0).header.psn, kReceivePsn + 1);
  solo.post_recv(5, 0);
  const Effects effects = solo.take(Opcode::kRcWriteLastImm, kReceivePsn + 1, 8);
  EXPECT_EQ(effects.drop, Drop::kNone);
  EXPECT_EQ(effects.placement.va, 0x10000u + kMtu);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{5, WcStatus::kSuccess}}));
}

}  // namespace
}  // namespace roce::engine::test
