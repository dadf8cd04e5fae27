// UD queue pairs.
#include <gtest/gtest.h>

#include <cerrno>

#include "solo.h"

namespace roce::engine::test {
namespace {

using wire::Opcode;

constexpr uint32_t kQkey = 0x11223344;

QpAttributes ud_attributes() {
  QpAttributes out = default_attributes();
  out.qkey = kQkey;
  return out;
}

struct UdSolo : Solo {
  UdSolo() : Solo(ud_attributes(), QpType::kUd) {}

  static SendRequest to_peer(uint64_t wr_id) {
    SendRequest out = Solo::request(WrOpcode::kSend, wr_id);
    out.address = 0xABCD;
    out.remote_qpn = 0x33;
    out.remote_qkey = 0x99;
    return out;
  }
  static wire::Header packet(uint32_t qkey = kQkey) {
    wire::Header out;
    out.opcode = Opcode::kUdSendOnly;
    out.qkey = qkey;
    out.src_qpn = 0x44;
    return out;
  }
};

TEST(UdSend, IsOnePacketThatCompletesWhenItLeaves) {
  UdSolo solo;
  solo.post(UdSolo::to_peer(1), 100);
  EXPECT_TRUE(solo.completions().empty());
  const auto out = solo.packets();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].header.opcode, Opcode::kUdSendOnly);
  EXPECT_EQ(out[0].header.dest_qpn, 0x33u);
  EXPECT_EQ(out[0].header.qkey, 0x99u);
  EXPECT_EQ(out[0].header.src_qpn, 0x11u);
  EXPECT_EQ(out[0].header.psn, kSendPsn);
  EXPECT_EQ(out[0].address, 0xABCDu);
  EXPECT_EQ(out[0].payload.length, 100u);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(solo.qp.poll_timer(), kNever);
}

TEST(UdSend, QkeyWithTheTopBitStandsForTheOwnOne) {
  UdSolo solo;
  SendRequest request = UdSolo::to_peer(1);
  request.remote_qkey = 0x80000000;
  solo.post(request, 8);
  EXPECT_EQ(solo.packets().at(0).header.qkey, kQkey);
}

TEST(UdSend, RefusesWhatIsNoDatagram) {
  UdSolo solo;
  EXPECT_EQ(solo.post(UdSolo::to_peer(1), kMtu), 0);
  EXPECT_EQ(solo.post(UdSolo::to_peer(1), kMtu + 1), EINVAL);
  SendRequest write = UdSolo::to_peer(1);
  write.opcode = WrOpcode::kWrite;
  EXPECT_EQ(solo.post(write, 8), EINVAL);
}

TEST(UdSend, UnreadablePayloadFailsTheRequestAndStopsTheSendQueue) {
  UdSolo solo;
  solo.post(UdSolo::to_peer(1), 8);
  solo.post(UdSolo::to_peer(2), 8);
  OutPacket packet;
  ASSERT_TRUE(solo.qp.poll_packet(solo.now, packet));
  solo.qp.handle_gather_fault(packet, solo.now);
  EXPECT_EQ(solo.qp.state(), QpState::kSqe);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kLocalProtection}, {2, WcStatus::kFlushed}}));
  solo.post_recv(3, 100);
  EXPECT_EQ(solo.take(UdSolo::packet(), 8).drop, Drop::kNone) << "receiving goes on";
}

TEST(UdReceive, PayloadStandsBehindTheGrh) {
  UdSolo solo;
  solo.post_recv(1, 100);
  wire::Header header = UdSolo::packet();
  header.opcode = Opcode::kUdSendOnlyImm;
  header.imm = 0x77;
  const Effects effects = solo.take(header, 60);
  EXPECT_EQ(effects.placement.kind, Placement::Kind::kScatter);
  EXPECT_EQ(effects.placement.offset, 40u);
  EXPECT_EQ(effects.placement.length, 60u);
  EXPECT_TRUE(effects.placement.grh);
  const auto completions = solo.completions();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].byte_len, 100u);
  EXPECT_TRUE(completions[0].has_grh);
  EXPECT_EQ(completions[0].src_qpn, 0x44u);
  EXPECT_TRUE(completions[0].has_imm);
  EXPECT_EQ(completions[0].imm, 0x77u);
}

TEST(UdReceive, WrongQkeyIsDropped) {
  UdSolo solo;
  solo.post_recv(1, 100);
  EXPECT_EQ(solo.take(UdSolo::packet(kQkey + 1), 8).drop, Drop::kBadQkey);
  EXPECT_TRUE(solo.completions().empty());
  EXPECT_EQ(solo.receive.posted(), 1u);
}

TEST(UdReceive, TooLongForTheBufferIsDroppedAndTheBufferStays) {
  UdSolo solo;
  solo.post_recv(1, 100);
  EXPECT_EQ(solo.take(UdSolo::packet(), 61).drop, Drop::kBadLength);
  EXPECT_EQ(solo.counters.drops[static_cast<int>(Drop::kBadLength)], 1u);
  EXPECT_EQ(solo.take(UdSolo::packet(), 60).drop, Drop::kNone);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kSuccess}}));
}

TEST(UdReceive, WithoutReceiveRequestIsDropped) {
  UdSolo solo;
  EXPECT_EQ(solo.take(UdSolo::packet(), 8).drop, Drop::kNoReceive);
  EXPECT_TRUE(solo.packets().empty());
  EXPECT_TRUE(solo.acks(true).empty());
}

TEST(UdReceive, ConnectedOpcodesAreDropped) {
  UdSolo solo;
  solo.post_recv(1, 100);
  EXPECT_EQ(solo.take(Opcode::kRcSendOnly, kReceivePsn, 8).drop, Drop::kBadOpcode);
}

TEST(UdFlush, ErrorFlushesBothQueues) {
  UdSolo solo;
  solo.post(UdSolo::to_peer(1), 8);
  solo.post_recv(2, 100);
  solo.qp.set_state(QpState::kErr, solo.now);
  EXPECT_EQ(solo.outcomes(), (Outcomes{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}}));
  EXPECT_TRUE(solo.packets().empty());
}

}  // namespace
}  // namespace roce::engine::test
