// RDMA READ on both sides: pacing, responses, replay.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

wire::Header read_header(uint32_t psn, uint32_t length, uint64_t va = 0x10000) {
  wire::Header out = Solo::header(Opcode::kRcReadRequest, psn);
  out.va = va;
  out.dma_length = length;
  return out;
}

void set_read_limits(Solo& solo, uint32_t segment, uint32_t most) {
  PathLimits limits;
  limits.read_segment_bytes = segment;
  limits.max_read_bytes = most;
  solo.qp.set_limits(limits);
}

TEST(ReadRequester, RequestTakesOnePsnPerResponsePacket) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 2 * kMtu + 1);
  solo.post(WrOpcode::kSend, 2, 8);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcReadRequest);
  EXPECT_EQ(out[0].header.psn, kSendPsn);
  EXPECT_EQ(out[0].header.dma_length, 2 * kMtu + 1);
  EXPECT_EQ(out[0].payload.length, 0u);
  EXPECT_EQ(out[1].header.psn, kSendPsn + 3);
}

TEST(ReadRequester, EmptyReadTakesOnePsn) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 0);
  solo.post(WrOpcode::kSend, 2, 8);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn, kSendPsn + 1}));
  EXPECT_EQ(solo.take(Opcode::kRcReadResponseOnly, kSendPsn).placement.kind,
            Placement::Kind::kNone);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(ReadRequester, LongReadIsSplitIntoRequestsOfWholePackets) {
  Solo solo;
  set_read_limits(solo, 2 * kMtu + 100, UINT32_MAX);
  solo.post(WrOpcode::kRead, 1, 5 * kMtu + 7);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].header.dma_length, 2 * kMtu);
  EXPECT_EQ(out[1].header.psn, kSendPsn + 2);
  EXPECT_EQ(out[1].header.va, 0x10000u + 2 * kMtu);
  EXPECT_EQ(out[1].header.dma_length, 2 * kMtu);
  EXPECT_EQ(out[2].header.psn, kSendPsn + 4);
  EXPECT_EQ(out[2].header.va, 0x10000u + 4 * kMtu);
  EXPECT_EQ(out[2].header.dma_length, kMtu + 7);
}

TEST(ReadRequester, OutstandingResponseBytesAreBounded) {
  Solo solo;
  set_read_limits(solo, 2 * kMtu, 4 * kMtu);
  solo.post(WrOpcode::kRead, 1, 8 * kMtu);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn, kSendPsn + 2}));
  solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu);
  EXPECT_TRUE(solo.packets().empty()) << "3 KiB outstanding, 2 KiB more would exceed 4";
  solo.take(Opcode::kRcReadResponseLast, kSendPsn + 1, kMtu);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 4}));
}

TEST(ReadRequester, OneRequestIsAllowedHoweverLowTheBound) {
  Solo solo;
  set_read_limits(solo, 0, 1);
  solo.post(WrOpcode::kRead, 1, 8 * kMtu);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn}));
}

TEST(ReadRequester, AtMostMaxRdAtomicRequestsAreOutstanding) {
  Solo solo;  // max_rd_atomic 4
  for (int i = 0; i < 6; ++i) solo.post(WrOpcode::kRead, i, 8);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn, kSendPsn + 1, kSendPsn + 2, kSendPsn + 3}));
  solo.take(Opcode::kRcReadResponseOnly, kSendPsn, 8);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 4}));
}

TEST(ReadRequester, MoreRequestsMayBeAllowedWhileOneIsOutstanding) {
  QpAttributes attributes = default_attributes();
  attributes.max_rd_atomic = 1;
  Solo solo(attributes);
  solo.post(WrOpcode::kRead, 1, kMtu);  // So that the next one is not the first of the ring.
  solo.packets();
  solo.take(Opcode::kRcReadResponseOnly, kSendPsn, kMtu);
  for (const uint64_t id : {2, 3, 4}) solo.post(WrOpcode::kRead, id, 2 * kMtu);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1}));
  attributes.max_rd_atomic = 2;
  ASSERT_EQ(solo.qp.set_attributes(attributes), 0);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 3}));
  // The first of two packets does not end the request.
  solo.take(Opcode::kRcReadResponseFirst, kSendPsn + 1, kMtu);
  EXPECT_EQ(solo.psns(), Psns{});
  solo.take(Opcode::kRcReadResponseLast, kSendPsn + 2, kMtu);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 5}));
}

TEST(ReadRequester, FencedRequestWaitsForReads) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 8);
  SendRequest fenced = Solo::request(WrOpcode::kSend, 2);
  fenced.fence = true;
  solo.post(fenced, 8);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn}));
  solo.take(Opcode::kRcReadResponseOnly, kSendPsn, 8);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1}));
}

TEST(ReadRequester, ResponsesArePlacedAtTheirOffsets) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, kMtu + 9);
  solo.packets();
  Effects effects = solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kScatter);
  EXPECT_EQ(effects.placement.offset, 0u);
  effects = solo.take(Opcode::kRcReadResponseLast, kSendPsn + 1, 9);
  EXPECT_EQ(effects.placement.offset, kMtu);
  EXPECT_EQ(effects.placement.length, 9u);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kRead);
  EXPECT_EQ(completions[0].byte_len, kMtu + 9);
}

TEST(ReadRequester, ResponseAcknowledgesEarlierSends) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kRead, 2, 8);
  solo.packets();
  solo.take(Opcode::kRcReadResponseOnly, kSendPsn + 1, 8);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}}));
}

TEST(ReadRequester, LostResponseIsAskedForAgainFromThere) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 4 * kMtu);
  solo.packets();
  solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu);
  EXPECT_EQ(solo.take(Opcode::kRcReadResponseMiddle, kSendPsn + 2, kMtu).placement.kind,
            Placement::Kind::kNone);
  EXPECT_EQ(solo.counters.implied_nak_seq_err, 1u);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.psn, kSendPsn + 1);
  EXPECT_EQ(out[0].header.va, 0x10000u + kMtu);
  EXPECT_EQ(out[0].header.dma_length, 3 * kMtu);
  EXPECT_TRUE(out[0].resend);
}

TEST(ReadRequester, RepeatedRequestEndsWhereTheFirstOneEnded) {
  Solo solo;
  set_read_limits(solo, 4 * kMtu, UINT32_MAX);
  solo.post(WrOpcode::kRead, 1, 8 * kMtu);
  solo.packets();
  set_read_limits(solo, 0, UINT32_MAX);
  solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu);
  solo.take(Opcode::kRcReadResponseMiddle, kSendPsn + 2, kMtu);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.psn, kSendPsn + 1);
  EXPECT_EQ(out[0].header.dma_length, 3 * kMtu);
  EXPECT_EQ(out[1].header.psn, kSendPsn + 4);
  EXPECT_EQ(out[1].header.dma_length, 4 * kMtu);
}

TEST(ReadRequester, AckBeyondAnUnansweredReadMeansItWasLost) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 8);
  solo.post(WrOpcode::kRead, 2, 8);
  solo.post(WrOpcode::kSend, 3, 8);
  solo.packets();
  solo.take_ack(kSendPsn + 2);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1, kSendPsn + 2}));
}

TEST(ReadRequester, ResponseOfWrongLengthIsABadResponse) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 2 * kMtu);
  solo.packets();
  EXPECT_EQ(solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu - 1).placement.kind,
            Placement::Kind::kNone);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kBadResponse}}));
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
}

TEST(ReadRequester, LocalBufferWithoutRegionIsAProtectionError) {
  Solo solo;
  solo.post(WrOpcode::kRead, 1, 8);
  solo.packets();
  solo.memory.local = false;
  EXPECT_EQ(solo.take(Opcode::kRcReadResponseOnly, kSendPsn, 8).placement.kind,
            Placement::Kind::kNone);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kLocalProtection}}));
}

TEST(ReadResponder, AnswersOnePacketAtATimeWithReferences) {
  Solo solo;
  EXPECT_EQ(solo.take(read_header(kReceivePsn, 2 * kMtu + 1)).drop, Drop::kNone);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcReadResponseFirst);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcReadResponseMiddle);
  EXPECT_EQ(out[2].header.opcode, Opcode::kRcReadResponseLast);
  EXPECT_EQ(out[2].header.psn, kReceivePsn + 2);
  EXPECT_EQ(out[2].header.msn, 1u);
  EXPECT_EQ(out[2].payload.kind, PayloadRef::Kind::kRemoteRegion);
  EXPECT_EQ(out[2].payload.va, 0x10000u + 2 * kMtu);
  EXPECT_EQ(out[2].payload.length, 1u);
  EXPECT_EQ(solo.qp.expected_psn(), kReceivePsn + 3);
  EXPECT_TRUE(solo.acks().empty()) << "the responses are the acknowledgement";
}

TEST(ReadResponder, DuplicateIsExecutedAgainAndMayAskForAPart) {
  Solo solo;
  solo.take(read_header(kReceivePsn, 4 * kMtu));
  solo.packets();
  EXPECT_EQ(solo.take(read_header(kReceivePsn + 2, 2 * kMtu, 0x10000 + 2 * kMtu)).drop,
            Drop::kDuplicate);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcReadResponseFirst);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 2);
  EXPECT_EQ(out[0].payload.va, 0x10000u + 2 * kMtu);
  EXPECT_TRUE(out[0].resend);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcReadResponseLast);
  EXPECT_EQ(solo.qp.expected_psn(), kReceivePsn + 4);
}

TEST(ReadResponder, EveryAnswerToADuplicateIsAResend) {
  Solo solo;
  solo.take(read_header(kReceivePsn, 4 * kMtu));
  solo.packets();
  solo.take(read_header(kReceivePsn, kMtu));
  EXPECT_TRUE(solo.packets().at(0).resend);
  solo.take(read_header(kReceivePsn + 2, 2 * kMtu, 0x10000 + 2 * kMtu));
  EXPECT_TRUE(solo.packets().at(0).resend);
}

TEST(ReadResponder, DuplicateAtThePsnOfAnotherRequestIsIgnored) {
  Solo solo;
  solo.post_recv(1, 64);
  solo.take(read_header(kReceivePsn, kMtu));
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8);
  solo.packets();
  solo.take(read_header(kReceivePsn + 1, 0, 0x10000 + kMtu));
  solo.take(read_header(kReceivePsn + 1, kMtu, 0x10000 + kMtu));
  EXPECT_TRUE(solo.packets().empty());
}

TEST(ReadResponder, DuplicateThatDoesNotFitTheFirstRequestIsIgnored) {
  Solo solo;
  solo.take(read_header(kReceivePsn, 4 * kMtu));
  solo.packets();
  solo.take(read_header(kReceivePsn + 1, 3 * kMtu, 0x10000));         // Another address.
  solo.take(read_header(kReceivePsn + 1, 4 * kMtu, 0x10000 + kMtu));  // Beyond its end.
  wire::Header other_key = read_header(kReceivePsn, 4 * kMtu);
  other_key.rkey = 0x78;
  solo.take(other_key);
  EXPECT_TRUE(solo.packets().empty());
}

TEST(ReadResponder, DuplicateWhileAnsweringStartsThereAgain) {
  Solo solo;
  solo.take(read_header(kReceivePsn, 4 * kMtu));
  OutPacket packet;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(solo.qp.poll_packet(solo.now, packet));
  solo.take(read_header(kReceivePsn + 1, 3 * kMtu, 0x10000 + kMtu));
  EXPECT_EQ(solo.psns(), (Psns{kReceivePsn + 1, kReceivePsn + 2, kReceivePsn + 3}));
}

TEST(ReadResponder, MoreRequestsThanAgreedAreInvalid) {
  Solo solo;  // max_dest_rd_atomic 4
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(solo.take(read_header(kReceivePsn + i, 8)).drop, Drop::kNone);
  }
  EXPECT_EQ(solo.take(read_header(kReceivePsn + 4, 8)).drop, Drop::kRefused);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 5u) << "four answers, then the NAK";
  EXPECT_EQ(out[3].header.opcode, Opcode::kRcReadResponseOnly);
  EXPECT_EQ(out[4].header.syndrome, wire::kAethNakInvalidRequest);
  EXPECT_EQ(out[4].header.psn, kReceivePsn + 4);
}

TEST(ReadResponder, MoreRequestsMayBeAllowedWhileOneIsAnswered) {
  QpAttributes attributes = default_attributes();
  attributes.max_dest_rd_atomic = 1;
  Solo solo(attributes);
  solo.take(read_header(kReceivePsn, kMtu));  // So that the next one is not the first of the ring.
  EXPECT_EQ(solo.psns(), (Psns{kReceivePsn}));
  solo.take(read_header(kReceivePsn + 1, 2 * kMtu, 0x20000));
  attributes.max_dest_rd_atomic = 2;
  ASSERT_EQ(solo.qp.set_attributes(attributes), 0);
  EXPECT_EQ(solo.take(read_header(kReceivePsn + 3, kMtu)).drop, Drop::kNone);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[1].header.psn, kReceivePsn + 2);
  EXPECT_EQ(out[1].payload.va, 0x20000u + kMtu);
  EXPECT_EQ(out[2].header.psn, kReceivePsn + 3);
}

TEST(ReadResponder, AnsweredRequestsMakeRoom) {
  Solo solo;
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_EQ(solo.take(read_header(kReceivePsn + i, 8)).drop, Drop::kNone);
    ASSERT_EQ(solo.packets().size(), 1u);
  }
}

TEST(ReadResponder, KeyThatDoesNotCoverTheRangeIsRemoteAccessError) {
  Solo solo;
  solo.memory.remote = false;
  EXPECT_EQ(solo.take(read_header(kReceivePsn, 8)).drop, Drop::kRefused);
  EXPECT_EQ(solo.packets().at(0).header.syndrome, wire::kAethNakRemoteAccess);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventAccessError});
}

TEST(ReadResponder, RegionLostWhileAnsweringIsRemoteAccessErrorAtThatPsn) {
  Solo solo;
  solo.take(read_header(kReceivePsn, 4 * kMtu));
  OutPacket packet;
  solo.qp.poll_packet(solo.now, packet);
  solo.qp.poll_packet(solo.now, packet);
  solo.qp.handle_gather_fault(packet, solo.now);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcAck);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakRemoteAccess);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 1);
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventAccessError});
}

TEST(ReadResponder, LateDuplicateOfAFinishedReadDoesNotEndTheConnection) {
  Solo solo;
  solo.take(read_header(kReceivePsn, 8));
  solo.packets();
  solo.take(read_header(kReceivePsn, 8));
  OutPacket packet;
  ASSERT_TRUE(solo.qp.poll_packet(solo.now, packet));
  solo.qp.handle_gather_fault(packet, solo.now);  // Deregistered after the requester was done.
  EXPECT_EQ(solo.packets().at(0).header.syndrome, wire::kAethNakRemoteAccess);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  solo.post_recv(1, 64);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8).drop, Drop::kNone);
}

TEST(ReadResponder, ReplayNeverStopsNewRequests) {
  Solo solo;
  for (uint32_t i = 0; i < 4; ++i) solo.take(read_header(kReceivePsn + i, 8));
  solo.packets();
  for (uint32_t i = 0; i < 4; ++i) solo.take(read_header(kReceivePsn + i, 8));
  EXPECT_EQ(solo.take(read_header(kReceivePsn + 4, 8)).drop, Drop::kNone);
  EXPECT_EQ(solo.psns(),
            (Psns{kReceivePsn + 1, kReceivePsn + 2, kReceivePsn + 3, kReceivePsn + 4}));
}

}  // namespace
}  // namespace roce::engine::test
