// RDMA WRITE on both sides.
#include <gtest/gtest.h>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

wire::Header write_header(Opcode opcode, uint32_t psn, uint32_t length) {
  wire::Header out = Solo::header(opcode, psn);
  out.dma_length = length;
  return out;
}

TEST(WriteRequester, FirstPacketCarriesAddressKeyAndWholeLength) {
  Solo solo;
  solo.post(WrOpcode::kWrite, 1, 2 * kMtu + 3);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcWriteFirst);
  EXPECT_EQ(out[0].header.va, 0x10000u);
  EXPECT_EQ(out[0].header.rkey, 0x77u);
  EXPECT_EQ(out[0].header.dma_length, 2 * kMtu + 3);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcWriteMiddle);
  EXPECT_EQ(out[2].header.opcode, Opcode::kRcWriteLast);
  solo.take_ack(kSendPsn + 2);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kWrite);
}

TEST(WriteRequester, ImmediateStandsInTheLastPacket) {
  Solo solo;
  SendRequest request = Solo::request(WrOpcode::kWriteImm, 1);
  request.imm = 0x55;
  solo.post(request, kMtu);
  solo.post(request, kMtu + 1);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kRcWriteOnlyImm);
  EXPECT_EQ(out[0].header.imm, 0x55u);
  EXPECT_EQ(out[1].header.opcode, Opcode::kRcWriteFirst);
  EXPECT_EQ(out[2].header.opcode, Opcode::kRcWriteLastImm);
}

TEST(WriteResponder, PlacesIntoTheRegionAndUsesNoReceiveRequest) {
  Solo solo;
  solo.post_recv(1, 64);
  Effects effects = solo.take(write_header(Opcode::kRcWriteFirst, kReceivePsn, kMtu + 4), kMtu);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kRemoteRegion);
  EXPECT_EQ(effects.placement.rkey, 0x77u);
  EXPECT_EQ(effects.placement.va, 0x10000u);
  effects = solo.take(Opcode::kRcWriteLast, kReceivePsn + 1, 4);
  EXPECT_EQ(effects.placement.va, 0x10000u + kMtu);
  EXPECT_EQ(effects.placement.length, 4u);
  EXPECT_TRUE(solo.completions().empty());
  EXPECT_EQ(solo.receive.posted(), 1u);
  // The whole range first, then the last packet's own.
  ASSERT_EQ(solo.memory.checks.size(), 2u);
  EXPECT_EQ(solo.memory.checks[0].length, kMtu + 4);
  EXPECT_EQ(solo.memory.checks[1].va, 0x10000u + kMtu);
  EXPECT_EQ(solo.memory.checks[1].length, 4u);
}

TEST(WriteResponder, ImmediateConsumesAReceiveRequest) {
  Solo solo;
  solo.post_recv(7, 0);
  wire::Header header = write_header(Opcode::kRcWriteOnlyImm, kReceivePsn, 16);
  header.imm = 0x99;
  solo.take(header, 16);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 7u);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kRecvWithImm);
  EXPECT_EQ(completions[0].byte_len, 16u);
  EXPECT_EQ(completions[0].imm, 0x99u);
}

TEST(WriteResponder, KeyThatDoesNotCoverTheRangeIsRemoteAccessError) {
  Solo solo;
  solo.memory.remote = false;
  EXPECT_EQ(solo.take(write_header(Opcode::kRcWriteOnly, kReceivePsn, 8), 8).drop, Drop::kRefused);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakRemoteAccess);
  EXPECT_EQ(out[0].header.psn, kReceivePsn);
  EXPECT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.qp.take_events(), unsigned{kEventAccessError});
}

TEST(WriteResponder, RegionLostInTheMiddleIsRemoteAccessErrorAtThatPacket) {
  Solo solo;
  solo.take(write_header(Opcode::kRcWriteFirst, kReceivePsn, 3 * kMtu), kMtu);
  solo.memory.remote = false;
  const Effects effects = solo.take(Opcode::kRcWriteMiddle, kReceivePsn + 1, kMtu);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kNone);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.syndrome, wire::kAethNakRemoteAccess);
  EXPECT_EQ(out[0].header.psn, kReceivePsn + 1);
}

TEST(WriteResponder, QueuePairWithoutRemoteWriteRefuses) {
  QpAttributes attributes = default_attributes();
  attributes.access = kRemoteRead;
  Solo solo(attributes);
  solo.take(write_header(Opcode::kRcWriteOnly, kReceivePsn, 8), 8);
  ASSERT_EQ(solo.qp.state(), QpState::kErr);
  EXPECT_EQ(solo.packets().at(0).header.syndrome, wire::kAethNakRemoteAccess);
}

TEST(WriteResponder, EmptyWriteNeedsNoRegion) {
  Solo solo;
  solo.memory.remote = false;
  EXPECT_EQ(solo.take(write_header(Opcode::kRcWriteOnly, kReceivePsn, 0), 0).drop, Drop::kNone);
  EXPECT_EQ(solo.acks().size(), 1u);
}

TEST(WriteResponder, LongerThanAnyMessageIsInvalid) {
  Solo solo;
  solo.take(write_header(Opcode::kRcWriteFirst, kReceivePsn, 0x80000001), kMtu);
  EXPECT_EQ(solo.packets().at(0).header.syndrome, wire::kAethNakInvalidRequest);
}

TEST(WriteResponder, PathMtuAbove4096Works) {
  QpAttributes attributes = default_attributes();
  attributes.path_mtu_bytes = 8900;
  Solo solo(attributes);
  solo.take(write_header(Opcode::kRcWriteFirst, kReceivePsn, 10000), 8900);
  const Effects effects = solo.take(Opcode::kRcWriteLast, kReceivePsn + 1, 1100);
  EXPECT_EQ(effects.drop, Drop::kNone);
  EXPECT_EQ(effects.placement.va, 0x10000u + 8900);
  solo.post(WrOpcode::kWrite, 1, 10000);
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].payload.length, 8900u);
}

}  // namespace
}  // namespace roce::engine::test
