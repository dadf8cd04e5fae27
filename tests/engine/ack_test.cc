// ACK: what the requester makes of it, when the responder sends it.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

constexpr TimeNs kDeferral = 20 * kUs;

TEST(AckRequester, AcknowledgesEverythingUpToItsPsn) {
  Solo solo;
  for (int i = 0; i < 4; ++i) solo.post(WrOpcode::kSend, i, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 2);
  EXPECT_EQ(solo.outcomes(),
            (Outcomes{{0, WcStatus::kSuccess}, {1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}}));
  EXPECT_EQ(solo.qp.send_queue_used(), 1u);
  EXPECT_EQ(solo.qp.inflight_bytes(), 8u);
}

TEST(AckRequester, AckInsideAMessageCompletesNothing) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 4 * kMtu);
  solo.packets();
  solo.take_ack(kSendPsn + 1);
  EXPECT_TRUE(solo.completions().empty());
  EXPECT_EQ(solo.qp.inflight_bytes(), 2 * kMtu);
  solo.take_ack(kSendPsn + 3);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(AckRequester, OldAckAndAckOfTheUnsentAreStale) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  EXPECT_EQ(solo.take_ack(kSendPsn - 1).drop, Drop::kStaleAck);
  EXPECT_EQ(solo.take_ack(kSendPsn + 1).drop, Drop::kStaleAck);
  EXPECT_EQ(solo.take_ack(kSendPsn + 5, wire::kAethNakSequence).drop, Drop::kStaleAck);
  EXPECT_TRUE(solo.completions().empty());
  EXPECT_EQ(solo.take_ack(kSendPsn).drop, Drop::kNone);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(AckRequester, UnsignaledRequestsCompleteSilently) {
  Solo solo;
  SendRequest request = Solo::request(WrOpcode::kSend, 1);
  request.signaled = false;
  solo.post(request, 8);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 1);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{2, WcStatus::kSuccess}}));
  EXPECT_EQ(solo.qp.send_queue_used(), 0u);
}

TEST(AckRequester, RoundTripIsSmoothedAsInRfc6298) {
  Solo solo;
  const auto exchange = [&](TimeNs round_trip) {
    solo.post(WrOpcode::kSend, 1, 8);
    const auto out = solo.packets();
    solo.now += round_trip;
    solo.take_ack(out.at(0).header.psn);
  };
  EXPECT_EQ(solo.qp.smoothed_rtt(), 0u);
  exchange(80 * kUs);
  EXPECT_EQ(solo.qp.smoothed_rtt(), 80 * kUs);
  exchange(160 * kUs);
  EXPECT_EQ(solo.qp.smoothed_rtt(), 90 * kUs);  // 7/8 of 80 and 1/8 of 160.
}

TEST(AckRequester, PacketsSentAgainGiveNoRoundTripSample) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.now += 10 * kUs;
  solo.take_ack(kSendPsn, wire::kAethNakSequence);
  ASSERT_TRUE(solo.packets().at(0).resend);
  solo.now += 10 * kUs;
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(solo.qp.smoothed_rtt(), 0u);
}

TEST(AckResponder, ManyPacketsAreAnsweredByOneAckOfTheLatest) {
  Solo solo;
  for (int i = 0; i < 3; ++i) solo.post_recv(i, 64);
  for (uint32_t i = 0; i < 3; ++i) {
    solo.take(Opcode::kRcSendOnly, kReceivePsn + i, 8);
    solo.completions();
  }
  const auto acks = solo.acks();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].header.opcode, Opcode::kRcAck);
  EXPECT_EQ(acks[0].header.syndrome, wire::kAethAckNoCredit);
  EXPECT_EQ(acks[0].header.psn, kReceivePsn + 2);
  EXPECT_EQ(acks[0].header.msn, 3u);
  EXPECT_EQ(acks[0].header.dest_qpn, kPeerQpn);
}

TEST(AckResponder, NoAckIsOwedUnlessAskedFor) {
  Solo solo;
  solo.post_recv(1, 4 * kMtu);
  solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu, false);
  EXPECT_TRUE(solo.acks(true).empty());
  solo.take(Opcode::kRcSendMiddle, kReceivePsn + 1, kMtu, true);
  solo.take(Opcode::kRcSendMiddle, kReceivePsn + 2, kMtu, false);
  const auto acks = solo.acks();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].header.psn, kReceivePsn + 2);
}

TEST(AckResponder, DuplicateIsAcknowledgedWithTheLatestPsn) {
  Solo solo;
  for (int i = 0; i < 3; ++i) solo.post_recv(i, 64);
  for (uint32_t i = 0; i < 3; ++i) {
    solo.take(Opcode::kRcSendOnly, kReceivePsn + i, 8);
    solo.completions();
  }
  solo.acks();
  const Effects effects = solo.take(Opcode::kRcSendOnly, kReceivePsn, 8, false);
  EXPECT_EQ(effects.drop, Drop::kDuplicate);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kNone);
  EXPECT_TRUE(solo.completions().empty());
  EXPECT_EQ(solo.acks().at(0).header.psn, kReceivePsn + 2);
  EXPECT_EQ(solo.counters.duplicate_request, 1u);
}

TEST(AckResponder, AckWaitsForResponsesToEarlierReads) {
  Solo solo;
  solo.post_recv(1, 64);
  wire::Header read = Solo::header(Opcode::kRcReadRequest, kReceivePsn);
  read.dma_length = 2 * kMtu;
  solo.take(read);
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 2, 8);
  EXPECT_TRUE(solo.acks(true).empty());
  EXPECT_EQ(solo.qp.poll_timer(), kNever) << "no timer for what only poll_packet can end";
  EXPECT_EQ(solo.packets().size(), 2u);
  EXPECT_EQ(solo.acks().at(0).header.psn, kReceivePsn + 2);
}

TEST(AckResponder, ResponseOfALaterReadMakesTheAckSuperfluous) {
  Solo solo;
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8);
  wire::Header read = Solo::header(Opcode::kRcReadRequest, kReceivePsn + 1);
  read.dma_length = 8;
  solo.take(read);
  EXPECT_EQ(solo.packets().size(), 1u);
  EXPECT_TRUE(solo.acks(true).empty());
}

/// A request comes in, the program answers after `delay`.
void exchange(Solo& solo, uint32_t& psn, TimeNs delay) {
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, psn++, 8);
  solo.completions();
  solo.acks();
  solo.now += delay;
  solo.post(WrOpcode::kSend, 2, 8);
  const auto out = solo.packets();
  solo.acks(true);
  solo.take_ack(out.at(0).header.psn);
  solo.completions();
  solo.now += 100 * kUs;
}

TEST(AckResponder, AckIsHeldFor20usWhereTheLastExchangesWereAnsweredByData) {
  Solo solo;
  uint32_t psn = kReceivePsn;
  exchange(solo, psn, 5 * kUs);
  exchange(solo, psn, 5 * kUs);
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, psn, 8);
  EXPECT_TRUE(solo.acks().empty());
  EXPECT_EQ(solo.qp.poll_timer(), solo.now + kDeferral);
  solo.now += kDeferral - 1;
  EXPECT_TRUE(solo.acks().empty());
  EXPECT_EQ(solo.acks(true).size(), 1u) << "data leaves: the ACK rides";
}

TEST(AckResponder, HeldAckThatNoDataFollowsLeavesAndEndsTheHolding) {
  Solo solo;
  uint32_t psn = kReceivePsn;
  exchange(solo, psn, 5 * kUs);
  exchange(solo, psn, 5 * kUs);
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, psn++, 8);
  solo.completions();
  EXPECT_TRUE(solo.acks().empty());
  solo.now += kDeferral;
  EXPECT_EQ(solo.acks().size(), 1u);
  solo.post_recv(1, 64);
  solo.now += kMs;
  solo.take(Opcode::kRcSendOnly, psn++, 8);
  EXPECT_EQ(solo.acks().size(), 1u) << "not held again";
}

TEST(AckResponder, AckIsNotHeldWhereAnswersComeLate) {
  Solo solo;
  uint32_t psn = kReceivePsn;
  for (int i = 0; i < 4; ++i) exchange(solo, psn, 25 * kUs);
  solo.post_recv(1, 64);
  solo.take(Opcode::kRcSendOnly, psn, 8);
  EXPECT_EQ(solo.qp.poll_timer(), solo.now);
  EXPECT_EQ(solo.acks().size(), 1u);
}

}  // namespace
}  // namespace roce::engine::test
