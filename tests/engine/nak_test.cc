// NAK: sequence errors and the errors that end a connection.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

TEST(NakRequester, SequenceErrorGoesBackToTheMissingPacketInsideTheMessage) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 5 * kMtu);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 2, wire::kAethNakSequence);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0].header.psn, kSendPsn + 2);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcSendMiddle);
  EXPECT_EQ(out[0].payload.offset, 2u * kMtu);
  EXPECT_TRUE(out[0].resend);
  EXPECT_TRUE(out[0].header.ack_req) << "the first one again asks";
  EXPECT_EQ(out[2].header.opcode, Opcode::kRcSendLast);
  EXPECT_EQ(out[3].header.opcode, Opcode::kRcSendOnly);
  EXPECT_EQ(solo.counters.packet_seq_err, 1u);
  EXPECT_EQ(solo.counters.resent_packets, 4u);
}

TEST(NakRequester, AcknowledgesWhatCameBefore) {
  Solo solo;
  for (int i = 0; i < 3; ++i) solo.post(WrOpcode::kSend, i, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 2, wire::kAethNakSequence);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{0, WcStatus::kSuccess}, {1, WcStatus::kSuccess}}));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 2}));
}

TEST(NakRequester, WindowIsHalvedOncePerRoundTrip) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 16 * kMtu;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kSend, 1, 100 * kMtu);
  ASSERT_EQ(solo.packets().size(), 16u);
  solo.now += 10 * kUs;
  solo.take_ack(kSendPsn + 4, wire::kAethNakSequence);
  EXPECT_EQ(solo.packets().size(), 8u);
  solo.now += 10 * kUs;
  solo.take_ack(kSendPsn + 6, wire::kAethNakSequence);  // Same flight of 16.
  // Two more acknowledged at about half a packet's growth altogether.
  EXPECT_EQ(solo.packets().size(), 8u);
}

TEST(NakRequester, WindowGrowsBackByAboutOnePacketPerWindow) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 16 * kMtu;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kSend, 1, 1000 * kMtu);
  solo.packets();
  solo.now += 10 * kUs;
  solo.take_ack(kSendPsn, wire::kAethNakSequence);
  uint32_t acked = kSendPsn;
  size_t window = solo.packets().size();
  ASSERT_EQ(window, 8u);
  for (int round_trip = 0; round_trip < 4; ++round_trip) {
    solo.now += 10 * kUs;
    acked += static_cast<uint32_t>(window);
    solo.take_ack(acked - 1);
    window = solo.packets().size();
  }
  EXPECT_EQ(window, 12u);
}

TEST(NakRequester, RepeatedForOnePsnBeyondRetryCountIsRetryExceeded) {
  QpAttributes attributes = default_attributes();
  attributes.retry_cnt = 3;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.packets();
  for (int i = 0; i < 4; ++i) {
    solo.now += 100 * kUs;
    solo.take_ack(kSendPsn, wire::kAethNakSequence);
    ASSERT_EQ(solo.packets().size(), 2u);
  }
  solo.now += 100 * kUs;
  solo.take_ack(kSendPsn, wire::kAethNakSequence);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kRetryExceeded}, {2, WcStatus::kFlushed}}));
}

TEST(NakRequester, ProgressBetweenNaksForgivesThem) {
  QpAttributes attributes = default_attributes();
  attributes.retry_cnt = 1;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 60 * kMtu);
  solo.packets();
  for (uint32_t i = 1; i < 50; ++i) {
    solo.now += 100 * kUs;
    solo.take_ack(kSendPsn + i, wire::kAethNakSequence);
    ASSERT_FALSE(solo.packets().empty());
  }
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
}

TEST(NakRequester, SecondNakOfTheSameFlightIsIgnored) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);  // Gives the round trip: 100 us.
  solo.packets();
  solo.now += 100 * kUs;
  solo.take_ack(kSendPsn);
  solo.post(WrOpcode::kSend, 2, 8);
  solo.post(WrOpcode::kSend, 3, 8);
  solo.packets();
  solo.now += 100 * kUs;
  solo.take_ack(kSendPsn + 1, wire::kAethNakSequence);
  EXPECT_EQ(solo.packets().size(), 2u);
  solo.now += 10 * kUs;
  solo.take_ack(kSendPsn + 1, wire::kAethNakSequence);
  EXPECT_TRUE(solo.packets().empty());
}

struct FatalNak {
  uint8_t syndrome;
  WcStatus status;
};

class FatalNakRequester : public testing::TestWithParam<FatalNak> {};

TEST_P(FatalNakRequester, FailsTheRequestThatOwnsThePsn) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  SendRequest unsignaled = Solo::request(WrOpcode::kWrite, 2);
  unsignaled.signaled = false;
  solo.post(unsignaled, 3 * kMtu);
  solo.post(WrOpcode::kSend, 3, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 2, GetParam().syndrome);
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.outcomes(),
            (Outcomes{{1, WcStatus::kSuccess}, {2, GetParam().status}, {3, WcStatus::kFlushed}}));
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
}

INSTANTIATE_TEST_SUITE_P(Syndromes, FatalNakRequester,
                         testing::Values(FatalNak{0x61, WcStatus::kRemoteInvalidRequest},
                                         FatalNak{0x62, WcStatus::kRemoteAccess},
                                         FatalNak{0x63, WcStatus::kRemoteOperation},
                                         FatalNak{0x64, WcStatus::kRemoteInvalidRequest}));

TEST(NakRequester, RefusedReadFailsWithRemoteAccessError) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 4 * kMtu);
  solo.packets();
  solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu);
  solo.take_ack(kSendPsn + 1, wire::kAethNakRemoteAccess);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kRemoteAccess}}));
}

TEST(NakRequester, UnknownSyndromeHasNoEffect) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  EXPECT_EQ(solo.take_ack(kSendPsn, 0x7f).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.take_ack(kSendPsn, 0x80).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
}

TEST(NakResponder, OneSequenceErrorPerGap) {
  Solo solo;
  std::vector<OutPacket> out;
  for (int i = 0; i < 4; ++i) solo.post_recv(i, 64);
  for (uint32_t i = 1; i < 4; ++i) {
    EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + i, 8).drop, Drop::kOutOfSequence);
    for (const OutPacket& packet : solo.packets()) out.push_back(packet);
  }
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakSequence);
  EXPECT_EQ(out[0].header.psn, kReceivePsn);
  EXPECT_EQ(solo.counters.out_of_sequence, 3u);
  EXPECT_TRUE(solo.completions().empty());
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + i, 8).drop, Drop::kNone);
  }
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 3, 8);
  EXPECT_EQ(solo.packets().at(0).header.psn, kReceivePsn + 2) << "a new gap";
}

TEST(NakResponder, SecondPassOverTheSameGapIsReportedAgain) {
  Solo solo;
  for (uint32_t i = 1; i < 4; ++i) solo.take(Opcode::kRcSendOnly, kReceivePsn + i, 8);
  EXPECT_EQ(solo.packets().size(), 1u);
  for (uint32_t i = 1; i < 4; ++i) solo.take(Opcode::kRcSendOnly, kReceivePsn + i, 8);
  EXPECT_EQ(solo.packets().size(), 1u);
}

TEST(NakResponder, GapThatClosesBeforeTheNakLeavesAsksForTheNextMissing) {
  Solo solo;
  for (int i = 0; i < 4; ++i) solo.post_recv(i, 64);
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 1) << "that one was dropped";
}

TEST(NakResponder, NakAcknowledgesSoNoAckFollows) {
  Solo solo;
  for (int i = 0; i < 4; ++i) solo.post_recv(i, 64);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8);
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 2, 8);
  EXPECT_EQ(solo.packets().size(), 1u);
  EXPECT_TRUE(solo.acks(true).empty());
}

TEST(NakResponder, ErrorIsRepeatedForAPeerThatLostIt) {
  Solo solo;
  solo.post_recv(1, 4);
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8);
  EXPECT_EQ(solo.packets().size(), 1u);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn, 8).drop, Drop::kBadState);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakInvalidRequest);
  EXPECT_EQ(out[0].header.psn, kReceivePsn);
}

}  // namespace
}  // namespace roce::engine::test
