// SEND: how the requester cuts it into packets, what the responder does with them.
#include <gtest/gtest.h>

#include <cerrno>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

TEST(SendRequester, EightBytesAreOneSendOnlyThatAsksForAnAck) {
  Solo solo;
  ASSERT_EQ(solo.post(WrOpcode::kSend, 1, 8), 0);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcSendOnly);
  EXPECT_EQ(out[0].header.psn, kSendPsn);
  EXPECT_EQ(out[0].header.dest_qpn, kPeerQpn);
  EXPECT_TRUE(out[0].header.ack_req);
  EXPECT_FALSE(out[0].resend);
  EXPECT_EQ(out[0].payload.kind, PayloadRef::Kind::kSendQueue);
  EXPECT_EQ(out[0].payload.length, 8u);
  EXPECT_EQ(out[0].payload.sges[0].addr, 0x5000u);
}

TEST(SendRequester, EmptyMessageIsOnePacketWithoutPayload) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 0);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcSendOnly);
  EXPECT_EQ(out[0].payload.kind, PayloadRef::Kind::kNone);
}

TEST(SendRequester, LongMessageIsFirstMiddleLastOfPathMtu) {
  Solo solo;
  SendRequest request = Solo::request(WrOpcode::kSendImm, 1);
  request.solicited = true;
  request.imm = 0xAABBCCDD;
  solo.post(request, 2 * kMtu + 1);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcSendFirst);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcSendMiddle);
  EXPECT_EQ(out[2].header.opcode, Opcode::kRcSendLastImm);
  EXPECT_EQ(out[2].header.imm, 0xAABBCCDDu);
  EXPECT_EQ(out[0].payload.length, kMtu);
  EXPECT_EQ(out[2].payload.length, 1u);
  EXPECT_EQ(out[2].payload.offset, 2u * kMtu);
  EXPECT_FALSE(out[0].header.solicited);
  EXPECT_TRUE(out[2].header.solicited);
  EXPECT_FALSE(out[0].header.ack_req);
  EXPECT_TRUE(out[2].header.ack_req);
}

TEST(SendRequester, MessageOfExactlyTwoPacketsHasNoMiddle) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 2 * kMtu);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcSendFirst);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcSendLast);
  EXPECT_EQ(out[1].payload.length, kMtu);
}

TEST(SendRequester, PsnWrapsAfter24Bits) {
  QpAttributes attributes = default_attributes();
  attributes.sq_psn = 0xFFFFFF;
  Solo solo(attributes);
  solo.post(WrOpcode::kSend, 1, 2 * kMtu);
  EXPECT_EQ(solo.psns(), (Psns{0xFFFFFF, 0}));
  EXPECT_EQ(solo.qp.next_psn(), 1u);
  solo.take_ack(0);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(SendRequester, PayloadInFlightIsBoundedAndTheLastPacketOfTheWindowAsks) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 4 * kMtu;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kSend, 1, 10 * kMtu);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 4u);
  EXPECT_FALSE(out[2].header.ack_req);
  EXPECT_TRUE(out[3].header.ack_req);
  EXPECT_EQ(solo.qp.inflight_bytes(), 4 * kMtu);
  solo.take_ack(kSendPsn + 1);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 4, kSendPsn + 5}));
}

TEST(SendRequester, SmallPacketsInFlightCountForMore) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 1000;
  limits.packet_bytes_at_least = 200;
  solo.qp.set_limits(limits);
  for (int i = 0; i < 6; ++i) solo.post(WrOpcode::kSend, i, 8);
  // Five times 200.
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 5u);
  EXPECT_TRUE(out[4].header.ack_req);
  solo.take_ack(kSendPsn);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn + 5}));
}

TEST(SendRequester, WindowBelowOnePacketStillSendsOne) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 10;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kSend, 1, 3 * kMtu);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(out[0].header.ack_req);
}

TEST(SendRequester, OnePacketMayLeaveWhateverElseIsOutstanding) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 10;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kRead, 1, 8);
  solo.post(WrOpcode::kSend, 2, kMtu);
  EXPECT_EQ(solo.psns(), (Psns{kSendPsn, kSendPsn + 1}));
}

TEST(SendRequester, WindowLoweredInsideAMessageDoesNotStall) {
  Solo solo;
  solo.post(WrOpcode::kSend, 1, 20 * kMtu);
  OutPacket packet;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(solo.qp.poll_packet(solo.now, packet));
    ASSERT_FALSE(packet.header.ack_req);
  }
  PathLimits limits;
  limits.max_inflight_bytes = kMtu;
  solo.qp.set_limits(limits);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(out[0].header.ack_req);
}

TEST(SendRequester, LongMessageAsksAtLeastEvery32Packets) {
  Solo solo;
  PathLimits limits;
  limits.max_inflight_bytes = 1 << 20;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kSend, 1, 200 * kMtu);
  int since = 0;
  for (const OutPacket& packet : solo.packets()) {
    since = packet.header.ack_req ? 0 : since + 1;
    EXPECT_LT(since, 32);
  }
}

TEST(SendRequester, UnackedPacketsStayBelowThePsnWindow) {
  QpAttributes attributes = default_attributes();
  attributes.path_mtu_bytes = 256;
  Solo solo(attributes);
  PathLimits limits;
  limits.max_inflight_bytes = 1u << 30;
  solo.qp.set_limits(limits);
  solo.post(WrOpcode::kSend, 1, 16 << 20);
  EXPECT_EQ(solo.packets().size(), 8192u);
}

TEST(SendRequester, RefusesWhatVerbsRefuse) {
  Solo solo;
  const Sge sges[5] = {};
  SendRequest request = Solo::request(WrOpcode::kSend, 1);
  request.sges = sges;
  EXPECT_EQ(solo.qp.post_send(request, solo.now), EINVAL) << "five elements, four allowed";
  EXPECT_EQ(solo.post(WrOpcode::kCompareSwap, 1, 16), EINVAL);
  EXPECT_EQ(solo.post(WrOpcode::kSend, 1, (1u << 31) + 1), EINVAL);
  EXPECT_EQ(solo.post(static_cast<WrOpcode>(7), 1, 8), EINVAL);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(solo.post(WrOpcode::kSend, i, 8), 0);
  EXPECT_EQ(solo.post(WrOpcode::kSend, 64, 8), ENOMEM);
}

TEST(SendRequester, UnsignaledRequestsFreeTheirPlaces) {
  Solo solo;
  SendRequest request = Solo::request(WrOpcode::kSend, 1);
  request.signaled = false;
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(solo.post(request, 8), 0);
    ASSERT_EQ(solo.packets().size(), 1u);
    solo.take_ack(kSendPsn + i);
  }
  EXPECT_TRUE(solo.completions().empty());
}

TEST(SendRequester, NothingIsPostedBeforeReadyToSend) {
  SwitchMemory memory;
  Counters counters;
  ReceiveQueue receive(4, 1);
  QueuePair qp(Solo::config(QpType::kRc), receive, false, memory, counters);
  const SendRequest request = Solo::request(WrOpcode::kSend, 1);
  EXPECT_EQ(qp.post_send(request, 0), EINVAL);
  qp.set_state(QpState::kInit, 0);
  EXPECT_EQ(qp.post_send(request, 0), EINVAL);
  qp.set_attributes(default_attributes());
  qp.set_state(QpState::kRtr, 0);
  EXPECT_EQ(qp.post_send(request, 0), EINVAL);
  qp.set_state(QpState::kRts, 0);
  EXPECT_EQ(qp.post_send(request, 0), 0);
}

TEST(SendResponder, PlacesEachPacketAtItsOffsetAndCompletesAtTheLast) {
  Solo solo;
  solo.post_recv(9, 4 * kMtu);
  Effects effects = solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu);
  EXPECT_EQ(effects.drop, Drop::kNone);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kScatter);
  EXPECT_EQ(effects.placement.offset, 0u);
  EXPECT_EQ(effects.placement.sges[0].addr, 0x9000u);
  EXPECT_TRUE(solo.completions().empty());
  effects = solo.take(Opcode::kRcSendMiddle, kReceivePsn + 1, kMtu);
  EXPECT_EQ(effects.placement.offset, kMtu);
  wire::Header last = Solo::header(Opcode::kRcSendLastImm, kReceivePsn + 2);
  last.imm = 0x01020304;
  last.solicited = true;
  effects = solo.take(last, 5);
  EXPECT_EQ(effects.placement.offset, 2u * kMtu);
  EXPECT_EQ(effects.placement.length, 5u);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 9u);
  EXPECT_TRUE(completions[0].is_recv);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(completions[0].byte_len, 2 * kMtu + 5);
  EXPECT_TRUE(completions[0].has_imm);
  EXPECT_EQ(completions[0].imm, 0x01020304u);
  EXPECT_TRUE(completions[0].solicited);
}

TEST(SendResponder, SendWithInvalidateNamesTheKey) {
  Solo solo;
  solo.post_recv(9, 64);
  wire::Header header = Solo::header(Opcode::kRcSendOnlyInvalidate, kReceivePsn);
  header.invalidate_rkey = 0x1234;
  EXPECT_EQ(solo.take(header, 8).invalidate_rkey, 0x1234u);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_TRUE(completions[0].invalidated);
  EXPECT_EQ(completions[0].imm, 0x1234u);
}

TEST(SendResponder, TooLongForTheBufferIsLocalLengthErrorAndInvalidRequest) {
  Solo solo;
  solo.post_recv(9, kMtu + 10);
  solo.post_recv(10, kMtu);
  solo.take(Opcode::kRcSendFirst, kReceivePsn, kMtu, false);
  const Effects effects = solo.take(Opcode::kRcSendLast, kReceivePsn + 1, 11);
  EXPECT_EQ(effects.drop, Drop::kRefused);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kNone);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakInvalidRequest);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 1);
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{9, WcStatus::kLocalLength}, {10, WcStatus::kFlushed}}));
}

TEST(SendResponder, ReceiveBufferWithoutRegionIsRemoteOperationalError) {
  Solo solo;
  solo.post_recv(9, 64);
  solo.memory.local = false;
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn, 8).drop, Drop::kRefused);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakRemoteOperation);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{9, WcStatus::kLocalProtection}}));
}

struct BadSequence {
  const char* name;
  std::vector<std::pair<Opcode, uint32_t>> packets;  ///< The last one is refused.
};

class IllegalRequest : public testing::TestWithParam<BadSequence> {};

TEST_P(IllegalRequest, IsAnsweredByInvalidRequest) {
  Solo solo;
  solo.post_recv(1, 1 << 20);
  uint32_t psn = kReceivePsn;
  const auto& packets = GetParam().packets;
  for (size_t i = 0; i < packets.size(); ++i) {
    wire::Header header = Solo::header(packets[i].first, psn++);
    header.dma_length = 3 * kMtu;
    const Effects effects = solo.take(header, packets[i].second);
    EXPECT_EQ(effects.drop, i + 1 == packets.size() ? Drop::kRefused : Drop::kNone);
  }
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcAck);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakInvalidRequest);
  EXPECT_EQ(out[0].header.psn, psn - 1);
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.qp.take_events() & kEventRequestError, kEventRequestError);
}

const BadSequence kBadSequences[] = {
    {"MiddleWithoutFirst", {{Opcode::kRcSendMiddle, kMtu}}},
    {"LastWithoutFirst", {{Opcode::kRcSendLast, 8}}},
    {"FirstInsideMessage", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcSendFirst, kMtu}}},
    {"OnlyInsideMessage", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcSendOnly, 8}}},
    {"WriteInsideSend", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcWriteMiddle, kMtu}}},
    {"WriteFirstInsideSend", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcWriteFirst, kMtu}}},
    {"SendInsideWrite", {{Opcode::kRcWriteFirst, kMtu}, {Opcode::kRcSendMiddle, kMtu}}},
    {"ReadInsideSend", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcReadRequest, 0}}},
    {"AtomicInsideWrite", {{Opcode::kRcWriteFirst, kMtu}, {Opcode::kRcFetchAdd, 0}}},
    {"ShortFirst", {{Opcode::kRcSendFirst, kMtu - 1}}},
    {"LongOnly", {{Opcode::kRcSendOnly, kMtu + 1}}},
    {"ShortMiddle", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcSendMiddle, kMtu - 4}}},
    {"EmptyLast", {{Opcode::kRcSendFirst, kMtu}, {Opcode::kRcSendLast, 0}}},
    {"WriteEndsEarly", {{Opcode::kRcWriteFirst, kMtu}, {Opcode::kRcWriteLast, kMtu}}},
    {"WriteGoesOn",
     {{Opcode::kRcWriteFirst, kMtu},
      {Opcode::kRcWriteMiddle, kMtu},
      {Opcode::kRcWriteMiddle, kMtu}}},
    {"WriteOnlyOfOtherLength", {{Opcode::kRcWriteOnly, 8}}},
};

INSTANTIATE_TEST_SUITE_P(Sequences, IllegalRequest, testing::ValuesIn(kBadSequences),
                         [](const auto& info) { return info.param.name; });

TEST(Responder, UnknownOperationsAndCnpHaveNoEffect) {
  Solo solo;
  EXPECT_EQ(solo.take(Opcode::kRcFlush, kReceivePsn).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.take(Opcode::kRcAtomicWrite, kReceivePsn, 8).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.take(Opcode::kUdSendOnly, kReceivePsn, 8).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.take(static_cast<Opcode>(0x3f), kReceivePsn).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.take(Opcode::kCnp, 0, 16).drop, Drop::kNone);
  EXPECT_EQ(solo.counters.cnps_received, 1u);
  EXPECT_EQ(solo.take(Opcode::kRcFlush, kReceivePsn - 1).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.take(Opcode::kRcFlush, kReceivePsn + 1).drop, Drop::kBadOpcode);
  EXPECT_EQ(solo.counters.drops[static_cast<int>(Drop::kBadOpcode)], 6u);
  EXPECT_EQ(solo.qp.state(), QpState::kRts);
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_TRUE(solo.acks().empty());
}

}  // namespace
}  // namespace roce::engine::test
