// Lazy acknowledgement between ends that agreed: what need not ask does not ask, and is
// acknowledged all the same.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

QpAttributes lazy_attributes() {
  QpAttributes out = default_attributes();
  out.lazy_ack = true;
  return out;
}

SendRequest unsignaled(WrOpcode opcode) {
  SendRequest out = Solo::request(opcode, 1);
  out.signaled = false;
  return out;
}

bool asks(Solo& solo, const SendRequest& request, uint32_t length) {
  EXPECT_EQ(solo.post(request, length), 0);
  return solo.packets().back().header.ack_req;
}

TEST(LazyAckRequester, MessagesWithoutCompletionDoNotAsk) {
  Solo solo(lazy_attributes());
  EXPECT_FALSE(asks(solo, unsignaled(WrOpcode::kSend), 8));
  EXPECT_FALSE(asks(solo, unsignaled(WrOpcode::kWrite), kMtu));
  EXPECT_FALSE(asks(solo, unsignaled(WrOpcode::kSend), kMtu + 1));
  SendRequest solicited = unsignaled(WrOpcode::kSend);
  solicited.solicited = true;
  EXPECT_TRUE(asks(solo, solicited, 8));
}

TEST(LazyAckRequester, CompletionsAlwaysAsk) {
  Solo solo(lazy_attributes());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(asks(solo, Solo::request(WrOpcode::kSend, 1), 8));
}

TEST(LazyAckRequester, WithoutAgreementEveryMessageAsks) {
  Solo solo;
  EXPECT_TRUE(asks(solo, unsignaled(WrOpcode::kSend), 8));
}

TEST(LazyAckRequester, EveryThirtySecondPacketAsks) {
  Solo solo(lazy_attributes());
  for (int i = 1; i < 32; ++i) ASSERT_FALSE(asks(solo, unsignaled(WrOpcode::kSend), 8)) << i;
  EXPECT_TRUE(asks(solo, unsignaled(WrOpcode::kSend), 8));
  EXPECT_FALSE(asks(solo, unsignaled(WrOpcode::kSend), 8));
}

TEST(LazyAckRequester, AsksBeforeTheWindowCloses) {
  Solo solo(lazy_attributes());
  PathLimits limits;
  limits.max_inflight_bytes = 4 * kMtu;
  solo.qp.set_limits(limits);
  for (int i = 1; i < 4; ++i) ASSERT_FALSE(asks(solo, unsignaled(WrOpcode::kSend), kMtu)) << i;
  EXPECT_TRUE(asks(solo, unsignaled(WrOpcode::kSend), kMtu));
}

TEST(LazyAckRequester, SendsAgainAndAsksWhereNoAckComes) {
  Solo solo(lazy_attributes());
  ASSERT_FALSE(asks(solo, unsignaled(WrOpcode::kSend), 8));
  ASSERT_NE(solo.qp.poll_timer(), kNever);
  solo.now = solo.qp.poll_timer();
  solo.qp.handle_timer(solo.now);
  const auto again = solo.packets();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].resend);
  EXPECT_TRUE(again[0].header.ack_req);
}

TEST(LazyAckResponder, RidesAfterAWhileAndGoesAloneBeforeThePeerResends) {
  Solo solo(lazy_attributes());
  for (int i = 0; i < 2; ++i) solo.post_recv(i, 64);
  const TimeNs arrival = solo.now;
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8, false);
  solo.now = arrival + 199 * kUs;
  EXPECT_TRUE(solo.acks(true).empty());
  solo.now = arrival + 200 * kUs;
  EXPECT_TRUE(solo.acks(false).empty());
  EXPECT_EQ(solo.acks(true).size(), 1u);

  const TimeNs second = solo.now;
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8, false);
  EXPECT_EQ(solo.qp.poll_timer(), second + 400 * kUs);
  solo.now = second + 400 * kUs;
  const auto alone = solo.acks(false);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].header.psn, kReceivePsn + 1);
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
}

TEST(LazyAckResponder, TheMiddleOfAMessageOwesNothing) {
  Solo solo(lazy_attributes());
  solo.post_recv(1, 2 * kMtu);
  solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu, false);
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
  solo.take(Opcode::kRcSendLast, kReceivePsn + 1, kMtu, false);
  EXPECT_NE(solo.qp.poll_timer(), kNever);
}

TEST(LazyAckResponder, APacketThatAsksIsAnsweredAtOnceForAll) {
  Solo solo(lazy_attributes());
  for (int i = 0; i < 2; ++i) solo.post_recv(i, 64);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8, false);
  EXPECT_TRUE(solo.acks(false).empty());
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8, true);
  const auto out = solo.acks(false);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 1);
}

TEST(LazyAckResponder, ADuplicateIsAnsweredAtOnce) {
  Solo solo(lazy_attributes());
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8, false);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8, true);
  EXPECT_EQ(solo.acks(false).size(), 1u);
}

TEST(LazyAckResponder, WithoutAgreementWhatDoesNotAskGetsNoAck) {
  Solo solo;
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8, false);
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
  EXPECT_TRUE(solo.acks(true).empty());
}

}  // namespace
}  // namespace roce::engine::test
