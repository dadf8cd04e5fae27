// States: error and flush, reset, drain, events.
#include <gtest/gtest.h>

#include <cerrno>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

TEST(Flush, ErrorStateFlushesBothQueuesInOrder) {
  Solo solo;
  for (int i = 1; i <= 3; ++i) solo.post(WrOpcode::kSend, i, 8);
  solo.packets();
  solo.take_ack(kSendPsn);
  for (int i = 11; i <= 12; ++i) solo.post_recv(i, 64);
  solo.qp.set_state(QpState::kErr, solo.now);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess},
                                       {2, WcStatus::kFlushed},
                                       {3, WcStatus::kFlushed},
                                       {11, WcStatus::kFlushed},
                                       {12, WcStatus::kFlushed}}));
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_TRUE(solo.acks(true).empty());
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
}

TEST(Flush, RequestsPostedInErrorAreAcceptedAndFlushed) {
  Solo solo;
  solo.qp.set_state(QpState::kErr, solo.now);
  SendRequest unsignaled = Solo::request(WrOpcode::kSend, 1);
  unsignaled.signaled = false;
  EXPECT_EQ(solo.post(unsignaled, 8), 0);
  EXPECT_EQ(solo.post_recv(2, 64), 0);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}}));
}

TEST(Flush, ReceiveInProgressIsFlushedBeforeThoseThatWait) {
  Solo solo;
  solo.post_recv(1, 4 * kMtu);
  solo.post_recv(2, 64);
  solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu);
  solo.qp.set_state(QpState::kErr, solo.now);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kFlushed);
  EXPECT_TRUE(completions[0].is_recv);
  EXPECT_TRUE(completions[0].solicited);
  EXPECT_EQ(completions[1].wr_id, 2u);
}

TEST(Flush, SharedReceiveQueueKeepsItsRequestsAndTheLastWqeEventComes) {
  Solo solo(default_attributes(), QpType::kRc, true);
  const Sge sge{0x9000, 8192, 1};
  RecvRequest request;
  request.sges = {&sge, 1};
  for (uint64_t i = 1; i <= 3; ++i) {
    request.wr_id = i;
    ASSERT_TRUE(solo.receive.post(request));
  }
  EXPECT_EQ(solo.qp.post_recv(request), EINVAL);
  solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu);
  solo.qp.set_state(QpState::kErr, solo.now);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kFlushed}}));
  EXPECT_EQ(solo.receive.posted(), 2u);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventLastWqeReached});
}

TEST(Flush, PacketsForAQueuePairInErrorAreDropped) {
  Solo solo;
  solo.post_recv(1, 64);
  solo.qp.set_state(QpState::kErr, solo.now);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn, 8).drop, Drop::kBadState);
  EXPECT_EQ(solo.take_ack(kSendPsn).drop, Drop::kBadState);
  EXPECT_TRUE(solo.packets().empty());
}

TEST(Flush, UnreadablePayloadFailsItsRequestAfterTheEarlierOnes) {
  Solo solo;
  for (int i = 1; i <= 3; ++i) solo.post(WrOpcode::kSend, i, 8);
  const auto out = solo.packets();
  solo.qp.handle_gather_fault(out[1], solo.now);
  EXPECT_TRUE(solo.outcomes().empty()) << "the first one is still on its way";
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess},
                                       {2, WcStatus::kLocalProtection},
                                       {3, WcStatus::kFlushed}}));
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
}

TEST(Flush, NothingAtOrBehindUnreadablePayloadIsSent) {
  Solo solo;
  for (int i = 1; i <= 3; ++i) solo.post(WrOpcode::kSend, i, 8);
  const auto out = solo.packets();
  solo.qp.handle_gather_fault(out[1], solo.now);
  solo.take_ack(kSendPsn, wire::kAethNakSequence);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn}));
}

TEST(Reset, DropsEverythingAndStartsAgainWithNewPsns) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kRead, 2, 8);
  solo.packets();
  solo.post_recv(3, 4 * kMtu);
  solo.post_recv(4, 64);
  solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu);
  solo.qp.set_state(QpState::kReset, solo.now);
  EXPECT_TRUE(solo.completions().empty());
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_TRUE(solo.acks(true).empty());
  EXPECT_EQ(solo.receive.posted(), 0u);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8).drop, Drop::kBadState);

  QpAttributes attributes = default_attributes();
  attributes.sq_psn = 9000;
  attributes.rq_psn = 7000;
  solo.qp.set_state(QpState::kInit, solo.now);
  solo.qp.set_attributes(attributes);
  solo.qp.set_state(QpState::kRtr, solo.now);
  solo.qp.set_state(QpState::kRts, solo.now);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(solo.post_recv(i, 64), 0) << "a place was lost";
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, 7000, 8).drop, Drop::kNone);
  solo.post(WrOpcode::kSend, 5, 8);
  EXPECT_EQ(solo.psns(), (Psns{9000}));
}

TEST(Drain, SqdFinishesWhatWasBegunAndSaysWhenItIsDone) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.post(WrOpcode::kSend, 2, 8);
  solo.qp.set_state(QpState::kSqd, solo.now);
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_EQ(solo.qp.take_events(), 0u);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventSqDrained});
  solo.qp.set_state(QpState::kRts, solo.now);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1}));
}

TEST(Drain, IdleQueueIsDrainedAtOnce) {
  Solo solo;
  solo.qp.set_state(QpState::kSqd, solo.now);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventSqDrained});
}

TEST(Drain, DatagramsHaveNothingToWaitFor) {
  Solo solo(default_attributes(), QpType::kUd);
  solo.qp.set_state(QpState::kSqd, solo.now);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventSqDrained});
}

TEST(States, FirstPacketInRtrEstablishesTheConnection) {
  SwitchMemory memory;
  Counters counters;
  ReceiveQueue receive(4, 1);
  QueuePair qp(Solo::config(QpType::kRc), receive, false, memory, counters);
  Effects effects;
  const wire::Header header = Solo::header(Opcode::kRcSendOnly, kReceivePsn);
  qp.handle_packet(header, 8, false, 0, effects);
  EXPECT_EQ(effects.drop, Drop::kBadState);
  qp.set_state(QpState::kInit, 0);
  qp.handle_packet(header, 8, false, 0, effects);
  EXPECT_EQ(effects.drop, Drop::kBadState);
  qp.set_attributes(default_attributes());
  qp.set_state(QpState::kRtr, 0);
  const Sge sge{0x9000, 64, 1};
  RecvRequest request;
  request.sges = {&sge, 1};
  ASSERT_EQ(qp.post_recv(request), 0);
  qp.handle_packet(header, 8, true, 0, effects);
  EXPECT_EQ(effects.drop, Drop::kNone);
  EXPECT_EQ(counters.ce_packets, 1u);
  EXPECT_EQ(qp.take_events(), unsigned{kEventCommEstablished});
  EXPECT_EQ(qp.take_events(), 0u);
}

}  // namespace
}  // namespace roce::engine::test
