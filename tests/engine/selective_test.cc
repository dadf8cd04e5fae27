// Selective acknowledgement: what is kept, what the answer says, what is sent again.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

QpAttributes selective_attributes() {
  QpAttributes out = default_attributes();
  out.selective = true;
  return out;
}

wire::Header selective_ack(uint32_t psn, uint32_t end, uint64_t first_word) {
  wire::Header out = Solo::header(Opcode::kRcSelectiveAck, psn, false);
  out.syndrome = wire::kAethNakSequence;
  out.sack_end = end;
  out.sack_map[0] = first_word;
  return out;
}

TEST(SelectiveResponder, KeepsWhatComesEarlyAndSaysWhatIsThere) {
  Solo solo(selective_attributes());
  for (uint32_t beyond : {1u, 3u}) {
    const Effects effects = solo.take(Opcode::kRcWriteMiddle, kReceivePsn + beyond, kMtu);
    EXPECT_EQ(effects.keep, Keep::kRequest);
    EXPECT_EQ(effects.placement.kind, Placement::Kind::kNone);
    solo.qp.keep(Keep::kRequest, kReceivePsn + beyond);
  }
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u) << "one answer for a batch";
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcSelectiveAck);
  EXPECT_EQ(out[0].header.psn, kReceivePsn);
  EXPECT_EQ(out[0].header.sack_end, kReceivePsn + 4);
  EXPECT_EQ(out[0].header.sack_map[0], 0b101u);
}

TEST(SelectiveResponder, HandsKeptPacketsBackInOrder) {
  Solo solo(selective_attributes());
  for (int i = 0; i < 3; ++i) solo.post_recv(i, 64);
  for (uint32_t beyond : {2u, 1u}) {
    solo.take(Opcode::kRcSendOnly, kReceivePsn + beyond, 8);
    solo.qp.keep(Keep::kRequest, kReceivePsn + beyond);
  }
  Keep kind = Keep::kNone;
  uint32_t psn = 0;
  EXPECT_FALSE(solo.qp.take_kept(kind, psn));
  solo.take(Opcode::kRcSendOnly, kReceivePsn, 8);
  for (uint32_t beyond : {1u, 2u}) {
    ASSERT_TRUE(solo.qp.take_kept(kind, psn));
    EXPECT_EQ(kind, Keep::kRequest);
    EXPECT_EQ(psn, kReceivePsn + beyond);
    solo.take(Opcode::kRcSendOnly, psn, 8);
  }
  EXPECT_FALSE(solo.qp.take_kept(kind, psn));
  EXPECT_EQ(solo.completions().size(), 3u);
  EXPECT_TRUE(solo.packets().empty()) << "nothing is missing any more";
  const auto acks = solo.acks();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].header.psn, kReceivePsn + 2);
}

TEST(SelectiveResponder, ANotKeptPacketIsToldToBeMissing) {
  Solo solo(selective_attributes());
  solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.sack_end, kReceivePsn + 2);
  EXPECT_EQ(out[0].header.sack_map[0], 0u);
}

TEST(SelectiveResponder, KeepsNothingBeyondItsWindow) {
  Solo solo(selective_attributes());
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + 511, 8).keep, Keep::kRequest);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + 512, 8).keep, Keep::kNone);
}

TEST(SelectiveResponder, WithoutAgreementNothingIsKept) {
  Solo solo;
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn + 1, 8).keep, Keep::kNone);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcAck);
}

TEST(SelectiveResponder, RepeatsOnlyTheMissingPartOfARead) {
  Solo solo(selective_attributes());
  wire::Header request = Solo::header(Opcode::kRcReadRequest, kReceivePsn);
  request.dma_length = 6 * kMtu;
  solo.take(request);
  ASSERT_EQ(solo.packets().size(), 6u);
  for (uint32_t missing : {1u, 4u}) {
    request.psn = kReceivePsn + missing;
    request.va = 0x10000 + missing * kMtu;
    request.dma_length = kMtu;
    solo.take(request);
  }
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 1);
  EXPECT_EQ(out[1].header.psn, kReceivePsn + 4);
  EXPECT_EQ(out[1].payload.va, 0x10000u + 4 * kMtu);
  EXPECT_TRUE(out[1].resend);
}

TEST(SelectiveRequester, SendsAgainOnlyWhatIsMissing) {
  Solo solo(selective_attributes());
  solo.post(WrOpcode::kSend, 1, 8 * kMtu);
  solo.packets();
  solo.now += 10 * kUs;
  // 0 and 1 have come, 2 is expected, 3 and 5 are there; 6 and 7 nobody misses yet.
  solo.take(selective_ack(kSendPsn + 2, kSendPsn + 6, 0b101));
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.psn, kSendPsn + 2);
  EXPECT_EQ(out[0].payload.offset, 2u * kMtu);
  EXPECT_EQ(out[1].header.psn, kSendPsn + 4);
  EXPECT_EQ(out[1].payload.offset, 4u * kMtu);
  EXPECT_TRUE(out[0].resend && out[1].resend);
  EXPECT_TRUE(out[1].header.ack_req);
  EXPECT_EQ(solo.counters.repairs, 1u);
}

TEST(SelectiveRequester, TakesOneForASequenceNakBeforeItKnows) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 4 * kMtu);
  solo.packets();
  solo.take(selective_ack(kSendPsn + 1, kSendPsn + 4, 0b110));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1, kSendPsn + 2, kSendPsn + 3}));
  EXPECT_EQ(solo.counters.packet_seq_err, 1u);
}

TEST(SelectiveRequester, MayBeSwitchedOnInTheMiddle) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 6 * kMtu);
  solo.packets();
  solo.take_ack(kSendPsn + 1, wire::kAethNakSequence);
  EXPECT_EQ(solo.psns(),
            (Psns{kSendPsn + 1, kSendPsn + 2, kSendPsn + 3, kSendPsn + 4, kSendPsn + 5}));
  ASSERT_EQ(solo.qp.set_attributes(selective_attributes()), 0);
  solo.now += 10 * kMs;
  solo.take(selective_ack(kSendPsn + 2, kSendPsn + 5, 0b10));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 2, kSendPsn + 3}));
}

TEST(SelectiveRequester, GivesARepairTheTimeToArrive) {
  Solo solo(selective_attributes());
  solo.post(WrOpcode::kSend, 1, 8);
  solo.packets();
  solo.now += 100 * kUs;
  solo.take_ack(kSendPsn);  // Round trip: 100 us.
  solo.post(WrOpcode::kSend, 2, 8 * kMtu);
  solo.packets();
  solo.take(selective_ack(kSendPsn + 1, kSendPsn + 3, 0b1));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1}));
  solo.now += 10 * kUs;
  solo.take(selective_ack(kSendPsn + 1, kSendPsn + 4, 0b11));
  EXPECT_TRUE(solo.packets().empty());
  // A loss that was not known before does not wait.
  solo.take(selective_ack(kSendPsn + 1, kSendPsn + 6, 0b1011));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 4}));
  solo.now += 100 * kUs;
  solo.take(selective_ack(kSendPsn + 1, kSendPsn + 6, 0b1111));
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 1}));
}

TEST(SelectiveRequester, AsksForMissingResponsesOnly) {
  Solo solo(selective_attributes());
  solo.post(WrOpcode::kRead, 1, 6 * kMtu);
  solo.packets();
  solo.now += 10 * kUs;
  solo.take(Opcode::kRcReadResponseFirst, kSendPsn, kMtu);
  for (uint32_t early : {2u, 4u}) {
    EXPECT_EQ(solo.take(Opcode::kRcReadResponseMiddle, kSendPsn + early, kMtu).keep,
              Keep::kResponse);
    solo.qp.keep(Keep::kResponse, kSendPsn + early);
  }
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcReadRequest);
  EXPECT_EQ(out[0].header.psn, kSendPsn + 1);
  EXPECT_EQ(out[0].header.dma_length, kMtu);
  EXPECT_EQ(out[0].header.va, 0x10000u + kMtu);
  EXPECT_EQ(out[1].header.psn, kSendPsn + 3);
  EXPECT_EQ(out[1].header.dma_length, kMtu);
}

TEST(SelectiveRequester, SurvivesAnswersThatCannotBeTrue) {
  Solo solo(selective_attributes());
  solo.post(WrOpcode::kRead, 1, 3 * kMtu);
  solo.post(WrOpcode::kSend, 2, 2 * kMtu);
  solo.packets();
  wire::Header lie = selective_ack(kSendPsn, kSendPsn - 5, ~uint64_t{0});
  for (uint64_t& word : lie.sack_map) word = ~uint64_t{0};
  solo.take(lie);
  solo.packets();
  lie.psn = kSendPsn + 100;
  EXPECT_EQ(solo.take(lie).drop, Drop::kStaleAck);
  lie.psn = kSendPsn - 1;
  EXPECT_EQ(solo.take(lie).drop, Drop::kStaleAck);
  // The truth comes by the clock.
  solo.now += 5 * kMs;
  solo.qp.handle_timer(solo.now);
  const auto again = solo.packets();
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again[0].header.psn, kSendPsn);
}

}  // namespace
}  // namespace roce::engine::test
